"""The packages list, the tree and the links agree, and a wheel holds what the tree holds.

A package that is missing from the list is left out of a wheel without a word. What a wheel requires
is tried in an environment that has nothing else.
"""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from packaging.tags import sys_tags
from packaging.utils import parse_wheel_filename

import odtc
from odtc.app.export import export_app
from odtc.core.errors import ExitCode
from odtc.runtime_rpc.native.android import compiler as android_compiler
from odtc.runtime_rpc.native.android.device import android_device
from tests.native.parity import bits
from tests.needs import needs
from tests.numeric.mlp import batches, mlp_artifact
from tests.wheels import MAPPED, ROOT, SETUPTOOLS, build_wheel, copied, environment_of, run_in

PACKAGE = ROOT / "odtc"


def source_files() -> list[Path]:
    """Python files of the package, relative to odtc/, links followed."""
    found = [
        Path(folder, name)
        for folder, _, names in os.walk(PACKAGE, followlinks=True)
        for name in names
    ]
    return sorted(path.relative_to(PACKAGE) for path in found if path.suffix == ".py")


def dotted(folder: Path) -> str:
    """Name of the package in a folder relative to odtc/."""
    return ".".join(("odtc", *folder.parts))


def test_every_folder_with_modules_is_a_package():
    folders = {file.parent for file in source_files()}
    assert folders == {file.parent for file in source_files() if file.name == "__init__.py"}


def test_packages_are_listed():
    assert SETUPTOOLS["packages"] == sorted({dotted(file.parent) for file in source_files()})


def test_links_lead_to_the_mapped_folders():
    links = {dotted(Path(p.name)): os.readlink(p) for p in PACKAGE.iterdir() if p.is_symlink()}
    assert links == {name: f"../{folder}" for name, folder in MAPPED.items()}
    assert all((ROOT / folder / "__init__.py").is_file() for folder in MAPPED.values())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """A wheel built from a copy, so that nothing is written beside the sources."""
    dist = tmp_path_factory.mktemp("dist")
    copied(copy := tmp_path_factory.mktemp("source"))
    assert not build_wheel(copy, dist, dict(os.environ)).returncode
    (built,) = dist.glob("*.whl")
    return built


def test_wheel_is_for_any_python_of_this_system(wheel):
    _, _, _, tags = parse_wheel_filename(wheel.name)
    (tag,) = tags
    assert (tag.interpreter, tag.abi) == ("py3", "none")
    assert tag in set(sys_tags())
    members = zipfile.ZipFile(wheel).namelist()
    for name in ("libodtc.so", "libodtc-gpu.so"):
        assert f"odtc/runtime_rpc/native/prebuilt/{name}" in members
    assert not any(".data/" in member or member.endswith(".pyc") for member in members)


@pytest.mark.slow
def test_no_wheel_is_built_without_a_compiler(tmp_path):
    """`tests/native/test_prebuilt.py` tries what fails here alone."""
    copied(copy := tmp_path / "source")
    env = {"PATH": "", "HOME": str(tmp_path)}
    done = build_wheel(copy, tmp_path / "dist", env)
    assert done.returncode
    said = done.stdout + done.stderr
    assert "error: a wheel holds the native runtime, compiled: no C compiler was found" in said
    assert "hint: run `apt-get install gcc libc6-dev`, or name a C compiler in CC" in said
    assert "Traceback" not in said


def test_wheel_holds_the_modules_of_the_tree(wheel):
    members = zipfile.ZipFile(wheel).namelist()
    assert sorted(m for m in members if m.endswith(".py")) == sorted(
        f"odtc/{file.as_posix()}" for file in source_files()
    )
    assert "odtc/py.typed" in members
    compiled = {*ROOT.glob("*/*/*.cc"), *ROOT.glob("*/native/*.h")}
    native = (ROOT / "runtime_rpc" / "native").rglob("*")
    runtime = {file for file in native if file.suffix in {".c", ".h", ".hpp", ".java", ".swift"}}
    assert len({file.suffix for file in runtime}) == 5
    assert {f"odtc/{file.relative_to(ROOT).as_posix()}" for file in compiled | runtime} <= {
        *members
    }
    assert {"native", "spirv"} == {file.parent.name for file in compiled}
    assert any(m.endswith("licenses/LICENSE") for m in members)


def test_wheel_imports_on_its_own(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    code = (
        "import importlib, sys\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "for name in sys.argv[2:]:\n"
        "    module = importlib.import_module(name)\n"
        "    assert module.__file__.startswith(sys.argv[1]), module.__file__\n"
    )
    names = [*SETUPTOOLS["packages"], "odtc.driver.compilation", "odtc.runtime_rpc.trainer"]
    subprocess.run(
        [sys.executable, "-I", "-c", code, str(tmp_path), *names],
        cwd=tmp_path,
        check=True,
        timeout=300,
    )


@pytest.fixture(scope="module")
def base(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return environment_of(wheel, tmp_path_factory.mktemp("base"))


TRAINING = """
import sys

import numpy as np
import odtc

path, data = sys.argv[1], np.load(sys.argv[2])
artifact = odtc.load(path)
trainer = artifact.trainer(threads=2)
for number, (x, y) in enumerate(zip(data["x"], data["y"])):
    print(trainer.step(x, y, lr=0.05).hex())
    if number == 2:
        trainer.save_checkpoint("m.ckpt")
        trainer = artifact.trainer(threads=1)
        trainer.load_checkpoint("m.ckpt")
print(trainer.evaluate(data["x"][0][:5]).tobytes().hex())
trainer.export_onnx("trained.onnx")
for name in ("tvm", "tvm_ffi", "torch", "psutil", "highspy"):
    try:
        __import__(name)
    except ModuleNotFoundError:
        continue
    raise SystemExit(f"{name} is there")
"""


def test_the_wheel_alone_trains_an_artifact(base: Path):
    """Without TVM and without a compiler, to the bits of the trainer here."""
    folder = base.parents[1]
    artifact = mlp_artifact(folder, odtc.Adam())
    artifact.save(folder / "m.odtc")
    data = batches(5)
    x, y = (np.stack(each) for each in zip(*data, strict=True))
    np.savez(folder / "m.npz", x=x, y=y)
    done = run_in(base, "-c", TRAINING, "m.odtc", "m.npz")
    assert not done.returncode, done.stderr
    *losses, evaluated = done.stdout.split()
    trainer = artifact.trainer(threads=2)
    wanted = [trainer.step(x, y, lr=0.05) for x, y in data]
    assert [bits(float.fromhex(loss)) for loss in losses] == [*map(bits, wanted)]
    assert evaluated == trainer.evaluate(x[0][:5]).tobytes().hex()
    assert not list(folder.rglob("libraries/*"))


@needs(any(each() for each in android_compiler._COMPILERS), reason="no compiler for 64-bit ARM")
def test_the_wheel_alone_has_the_server_of_a_phone(base: Path):
    """The one that is compiled here; and without a compiler."""
    words = ["device", "build", "--machine", "android", "-o", "odtc-device"]
    done = run_in(base, "-m", "odtc", *words)
    assert not done.returncode, done.stderr
    folder = base.parents[1]
    assert (folder / "odtc-device").read_bytes() == android_device()
    assert not list(folder.rglob("libraries/*"))


@needs(
    shutil.which("javac"),
    any(each() for each in android_compiler._COMPILERS),
    reason="no JDK, or no compiler for 64-bit ARM",
)
def test_the_wheel_alone_packs_a_step_for_android(base: Path):
    """Without a JDK and a compiler: the archive of the runtime is in the wheel."""
    folder = base.parents[1]
    artifact = mlp_artifact(folder, odtc.SGD(), target="android-cpu")
    artifact.save(folder / "phone.odtc")
    options = ["--platform", "android", "--name", "mlp", "-o"]
    done = run_in(base, "-m", "odtc", "export-app", "phone.odtc", *options, "alone")
    assert not done.returncode, done.stderr
    export_app(artifact, "android", folder / "here", "mlp")
    for name in ("mlp.aar", "odtc-runtime.aar", "odtc-runtime-sources.jar"):
        assert (folder / "alone" / name).read_bytes() == (folder / "here" / name).read_bytes()
    # Of other sources it is none.
    (declarations,) = folder.glob("lib/*/site-packages/odtc/runtime_rpc/native/android/bionic.h")
    written = declarations.read_text()
    declarations.write_text(f"{written}\n")
    done = run_in(base, "-m", "odtc", "export-app", "phone.odtc", *options, "edited")
    declarations.write_text(written)
    assert done.returncode == ExitCode.BUILD
    assert done.stderr.startswith("error: no JDK was found for the class of the JVM\n")


def test_the_command_line_of_the_wheel_alone(base: Path):
    """`tests/core/test_without_tvm.py` tries each command, in a process that imports no TVM."""
    done = run_in(base, "-m", "odtc", "compile", "mlp.onnx", "--batch", "8", "-o", "n.odtc")
    assert done.returncode == ExitCode.MISSING, done.stderr
    assert "hint: run `pip install 'odtc[compile]'`" in done.stderr
    done = run_in(base, "-m", "odtc", "--version")
    assert done.stdout == f"odtc {odtc.__version__}\n"
