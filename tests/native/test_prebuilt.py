"""The native runtime of a wheel: taken where it is of the sources beside it, and only there."""

from dataclasses import replace
from pathlib import Path

import pytest

from odtc.core.errors import BuildError
from odtc.core.process.native_library import load_library
from odtc.runtime_rpc.native import build, wheel
from odtc.runtime_rpc.native.interface import bind


@pytest.fixture(scope="module")
def prebuilt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    wheel.write_runtime(path := tmp_path_factory.mktemp("package") / "prebuilt" / "libodtc.so")
    return path.parent


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)


@pytest.mark.usefixtures("no_compiler")
def test_that_of_the_sources_needs_no_compiler(prebuilt: Path, monkeypatch) -> None:
    monkeypatch.setattr(build, "PREBUILT", prebuilt)
    assert build.runtime_library() == (prebuilt / "libodtc.so").read_bytes()
    assert bind(load_library(build.runtime_library()))


@pytest.mark.parametrize("change", ["source", "header", "flags", "machine"])
def test_another_one_is_compiled(change: str, prebuilt: Path, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(build, "PREBUILT", prebuilt)
    sources = tmp_path / "runtime"
    sources.mkdir()
    for path in build.FOLDER.iterdir():
        (sources / path.name).write_bytes(path.read_bytes())
    library = replace(build.CPUS, folders=(sources,))
    assert build.runtime_library(library) == (prebuilt / "libodtc.so").read_bytes()
    match change:
        case "source" | "header":
            edited = sources / {"source": "step.c", "header": "odtc.h"}[change]
            edited.write_bytes(edited.read_bytes() + b"\n")
        case "flags":
            monkeypatch.setattr(build, "_FLAGS", (*build._FLAGS, "-O1"))
        case "machine":
            monkeypatch.setattr(build.platform, "machine", lambda: "riscv64")
    with monkeypatch.context() as patch:
        patch.setattr(build, "kept_library", lambda made_from, make: b"compiled")
        assert build.runtime_library(library) == b"compiled"
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(BuildError) as caught:
        build.runtime_library(library)
    assert str(caught.value) == (
        "no C compiler was found for the native runtime, and that of this installation was "
        "compiled from other sources or for another machine\n"
        "  hint: run `apt-get install gcc libc6-dev`, or name a C compiler in CC"
    )


@pytest.mark.usefixtures("no_compiler")
def test_a_checkout_without_a_compiler() -> None:
    assert not build.PREBUILT.exists()
    with pytest.raises(BuildError, match="no C compiler was found for the native runtime\n"):
        build.runtime_library()


@pytest.mark.usefixtures("no_compiler")
def test_a_wheel_without_a_compiler_fails(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(wheel, "PREBUILT", tmp_path / "prebuilt")
    assert wheel.main() == BuildError.exit_code
    assert capsys.readouterr().err.startswith(
        "error: a wheel holds the native runtime, compiled: no C compiler was found"
    )


def test_a_library_for_another_machine_is_in_no_wheel(tmp_path: Path, monkeypatch) -> None:
    def compiled(command: list[str], output: Path, *flags: str, library: build.Library) -> None:
        output.write_bytes(b"of another machine")

    monkeypatch.setattr(wheel, "compile_runtime", compiled)
    with pytest.raises(BuildError, match="cannot be loaded here"):
        wheel.write_runtime(tmp_path / "libodtc.so")


def test_the_platform_is_that_of_the_symbols(prebuilt: Path, tmp_path: Path) -> None:
    """That of the runtime, and of libraries that need less, or other libraries than glibc's."""
    machine = wheel.platform.machine()
    found = wheel.platform_tag(prebuilt / "libodtc.so")
    assert found.startswith("manylinux_2_")
    assert found.endswith(f"_{machine}")
    compiler, source = build.compiler_of_c(), tmp_path / "a.c"

    def tag(text: str, *flags: str) -> str:
        source.write_text(text)
        output = tmp_path / "a.so"
        build.subprocess.run(
            [*compiler, "-shared", "-fPIC", str(source), "-o", str(output), *flags], check=True
        )
        return wheel.platform_tag(output)

    assert tag("#include <string.h>\nvoid *f(void *a) { return memset(a, 1, strlen(a)); }") == (
        f"manylinux_2_17_{machine}"
    )
    other = tmp_path / "libother.so"
    build.subprocess.run([*compiler, "-shared", "-fPIC", str(source), "-o", str(other)], check=True)
    text = "#include <stdlib.h>\nvoid *f(void *); void *g(void) { return f(malloc(2)); }"
    assert tag(text, str(other)) == f"linux_{machine}"
    assert tag("int g(void) { return 1; }", "-nostdlib") == f"linux_{machine}"
