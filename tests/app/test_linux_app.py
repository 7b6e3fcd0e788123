"""The folder for a program on Linux builds, and trains to the bits of the Python trainer."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest

import odtc
from benchmarks import native_runtime
from benchmarks.models.digits import digits_model
from odtc.app.export import export_app
from odtc.artifact import Artifact
from odtc.core.process.cxx import cc_command
from tests.needs import needs

STEPS = 3
PROGRAM = Path(native_runtime.__file__).with_name("steps.c")
PROJECT = """\
cmake_minimum_required(VERSION 3.13)
project(two_models C)
add_subdirectory(one)
add_subdirectory(two)
add_executable(steps {program})
target_link_libraries(steps PRIVATE odtc)
"""

pytestmark = needs(cc_command(), reason="no C compiler")


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    onnx.save(digits_model(), path := tmp_path_factory.mktemp("model") / "digits.onnx")
    return odtc.compile(path, "host-cpu{threads=2}", batch=8, optimizer=odtc.AdamW())


def assert_it_trains(steps: Path, model: Path, name: str, artifact: Artifact) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((8, 1, 8, 8), np.float32)
    y = np.arange(8, dtype=np.int32)
    (batch := model / "batch").write_bytes(x.tobytes() + y.tobytes())
    paths = (
        model / "program.bin",
        model / "parameters.safetensors",
        model / f"lib{name}_kernels.so",
    )
    done = subprocess.run(
        [str(steps), *map(str, paths), "2", str(batch)],
        input="." * STEPS,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    losses = [float.fromhex(line.split()[1]) for line in done.stdout.splitlines()]
    with artifact.trainer(threads=1) as trainer:
        assert losses == [trainer.step(x, y, lr=0.01) for _ in range(STEPS)]


def test_a_compiler_builds_it(artifact: Artifact, tmp_path: Path) -> None:
    export_app(artifact, "linux", app := tmp_path / "app", "digits")
    (line,) = (line for line in (app / "README.md").read_text().splitlines() if " cc " in line)
    command = line.strip().replace("cc ", " ".join([*cc_command(), ""]), 1)
    shutil.copyfile(PROGRAM, app / "app.c")
    subprocess.run(command, shell=True, cwd=app, check=True)
    assert_it_trains(app / "app", app / "model", "digits", artifact)


@needs(shutil.which("cmake"), reason="no CMake")
def test_cmake_builds_it_beside_another(artifact: Artifact, tmp_path: Path) -> None:
    for name in ("one", "two"):
        export_app(artifact, "linux", tmp_path / name, name)
    (tmp_path / "CMakeLists.txt").write_text(PROJECT.format(program=PROGRAM))
    build = tmp_path / "build"
    for command in (["-S", str(tmp_path), "-B", str(build)], ["--build", str(build), "-j2"]):
        done = subprocess.run(["cmake", *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    assert_it_trains(build / "steps", tmp_path / "two" / "model", "two", artifact)
