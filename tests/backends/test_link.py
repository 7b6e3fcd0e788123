"""The linker: what it is asked to do, where it is found, and that its libraries run."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
import tvm
from tvm import te

import odtc
from odtc.backends.objects import link as module
from odtc.backends.objects.elf import check_library
from odtc.backends.objects.library import export_library
from odtc.backends.objects.link import Linker, find_linker, link
from odtc.backends.targets import Target, parse_target
from odtc.core.errors import BuildError
from tests.mlp import mlp

HOST = parse_target("host-cpu")
PHONE = parse_target("android-cpu")
FLAGS = [
    *("-z", "max-page-size=16384", "-z", "now", "-z", "relro", "-z", "noexecstack"),
    *("--hash-style=both", "--strip-all", "--as-needed", "-Bsymbolic"),
    *("--build-id=sha1", "-soname", "lib.so"),
]


def compile_exp_plus_one(target: Target) -> tvm.runtime.Executable:
    """A parallel, vectorized `exp(x) + 1` of 1024 floats."""
    x = te.placeholder((1024,), name="x")
    y = te.compute((1024,), lambda i: tvm.tirx.exp(x[i]) + 1.0, name="y")
    function = te.create_prim_func([x, y]).with_attr("global_symbol", "main")
    schedule = tvm.s_tir.Schedule(function)
    (loop,) = schedule.get_loops(schedule.get_sblock("y"))
    outer, inner = schedule.split(loop, [None, 16])
    schedule.parallel(outer)
    schedule.vectorize(inner)
    return tvm.compile(schedule.mod, target=target.to_tvm())


def script(path: Path, body: str) -> Path:
    path.write_text(f"#!{sys.executable}\nimport os, sys\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def no_linker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No linker is to be found; the folder that it gives is the only one on PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("TVM_NDK_CC", raising=False)
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda _: None)
    return tmp_path


def test_host_library_runs(tmp_path: Path):
    path = tmp_path / "host.so"
    export_library(compile_exp_plus_one(HOST), path, HOST)
    check_library(path, HOST)
    x = np.linspace(-3, 3, 1024, dtype="float32")
    y = tvm.runtime.tensor(np.zeros_like(x))
    tvm.runtime.load_module(str(path))["main"](tvm.runtime.tensor(x), y)
    np.testing.assert_allclose(y.numpy(), np.exp(x) + 1, rtol=1e-5)


@pytest.mark.parametrize("text", ["android-cpu", "android-cpu{mcpu=cortex-a53}", "linux-arm64-cpu"])
def test_arm_library_passes_the_gate(tmp_path: Path, text: str):
    target = parse_target(text)
    export_library(compile_exp_plus_one(target), tmp_path / "lib.so", target)
    check_library(tmp_path / "lib.so", target)


def test_relax_executable_runs(tmp_path: Path):
    from tvm import relax

    x = relax.Var("x", relax.TensorType((2, 3, 8, 8), "float32"))
    w = relax.Var("w", relax.TensorType((4, 3, 3, 3), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w]):
        convolved = builder.emit(relax.op.nn.conv2d(x, w))
        builder.emit_func_output(builder.emit(relax.op.nn.softmax(convolved)))
    executable = tvm.compile(builder.get(), target=HOST.to_tvm())
    export_library(executable, tmp_path / "lib.so", HOST)
    check_library(tmp_path / "lib.so", HOST)
    loaded = tvm.runtime.load_module(str(tmp_path / "lib.so"))
    machine = relax.VirtualMachine(loaded, tvm.cpu())
    ones = [tvm.runtime.tensor(np.ones(s, "float32")) for s in ((2, 3, 8, 8), (4, 3, 3, 3))]
    np.testing.assert_allclose(machine["main"](*ones).numpy(), np.full((2, 4, 6, 6), 1 / 6), 1e-6)


def test_arguments_of_lld():
    arguments = Linker(("ld.lld",)).arguments([Path("a.o"), Path("b.o")], Path("x/lib.so"), PHONE)
    assert arguments == [
        *("ld.lld", "-shared", "-m", "aarch64linux"),
        *FLAGS,
        *("-o", "x/lib.so", "a.o", "b.o"),
    ]


def test_arguments_of_a_compiler():
    arguments = Linker(("clang",), driver=True).arguments([Path("a.o")], Path("lib.so"), PHONE)
    flags = f"-Wl,{','.join(FLAGS)}"
    assert arguments == ["clang", "-shared", flags, "-nostdlib", "-o", "lib.so", "a.o"]


def test_ndk_compiler_links_for_phones_only(no_linker: Path, monkeypatch: pytest.MonkeyPatch):
    (no_linker / "ld.lld").touch(mode=0o755)
    monkeypatch.setenv("TVM_NDK_CC", "/ndk/clang")
    assert find_linker(PHONE) == Linker(("/ndk/clang",), driver=True)
    assert find_linker(HOST) == Linker((str(no_linker / "ld.lld"),))


def test_flags_reach_the_linker_through_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    lld = find_linker(HOST).command
    clang = script(
        tmp_path / "clang",
        "flat = [f for a in sys.argv[1:] if a != '-nostdlib'"
        " for f in (a[4:].split(',') if a.startswith('-Wl,') else [a])]\n"
        f"os.execv({lld[0]!r}, [*{lld!r}, '-m', 'aarch64linux', *flat])",
    )
    monkeypatch.setenv("TVM_NDK_CC", str(clang))
    export_library(compile_exp_plus_one(PHONE), tmp_path / "lib.so", PHONE)
    check_library(tmp_path / "lib.so", PHONE)


@pytest.mark.usefixtures("no_linker")
def test_a_missing_linker_is_said_before_kernels_are_compiled(tmp_path: Path):
    onnx.save(mlp(4, 3, 2), tmp_path / "m.onnx")
    stages: list[str] = []
    with pytest.raises(BuildError, match="no linker for host-cpu"):
        odtc.compile(tmp_path / "m.onnx", batch=1, progress=stages.append)
    assert stages[-1] == "read the model"


def test_newest_versioned_lld_is_taken(no_linker: Path):
    for version in ("9", "14", "14-wrapper"):
        (no_linker / f"ld.lld-{version}").touch(mode=0o755)
    (no_linker / "ld.lld-15").touch(mode=0o644)
    assert find_linker(PHONE) == Linker((str(no_linker / "ld.lld-14"),))
    (no_linker / "ld.lld").touch(mode=0o755)
    assert find_linker(PHONE) == Linker((str(no_linker / "ld.lld"),))


@pytest.mark.usefixtures("no_linker")
def test_ziglang_is_the_last_resort(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: SimpleNamespace(name=name))
    assert find_linker(PHONE) == Linker((sys.executable, "-m", "ziglang", "ld.lld"))


@pytest.mark.usefixtures("no_linker")
def test_no_linker_at_all(tmp_path: Path):
    with pytest.raises(BuildError) as error:
        link([], tmp_path / "lib.so", PHONE)
    assert str(error.value) == (
        "no linker for android-cpu was found: tried ld.lld, ld.lld-<version> and ziglang\n"
        "  hint: run `apt-get install lld` or `pip install ziglang`"
    )


def test_linker_that_cannot_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TVM_NDK_CC", str(tmp_path / "clang"))
    with pytest.raises(BuildError) as error:
        link([], tmp_path / "lib.so", PHONE)
    assert str(error.value) == (
        f"cannot start the linker {tmp_path}/clang: No such file or directory\n"
        f"  where: {tmp_path}/lib.so\n"
        "  hint: TVM_NDK_CC names it: set that to the clang of an NDK, or unset it"
    )


@pytest.mark.parametrize("printed", ["first line\nsecond line", ""])
def test_linker_that_fails(no_linker: Path, printed: str):
    body = f"print({printed!r}, file=sys.stderr); sys.exit(3)"
    lld = script(no_linker / "ld.lld", body)
    with pytest.raises(BuildError) as error:
        link([], no_linker / "lib.so", PHONE)
    assert str(error.value) == (
        f"the linker {lld} failed with exit code 3:\n"
        f"{printed or 'it printed nothing'}\n  where: {no_linker}/lib.so"
    )


def test_linker_that_writes_nothing(no_linker: Path):
    script(no_linker / "ld.lld", "")
    with pytest.raises(BuildError, match="ended without an error, and wrote nothing"):
        link([no_linker / "a.o"], no_linker / "lib.so", HOST)


def test_stderr_of_the_real_linker_is_shown(tmp_path: Path):
    with pytest.raises(BuildError, match=r"cannot open .*missing\.o"):
        link([tmp_path / "missing.o"], tmp_path / "lib.so", PHONE)


def test_module_imports_without_tvm():
    code = (
        "import sys, odtc.backends.objects.link, odtc.backends.objects.elf\n"
        "sys.exit('tvm' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, timeout=300)
    assert done.returncode == 0
