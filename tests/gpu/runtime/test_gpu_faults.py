"""A GPU without the memory, and one that is lost: the user's error, and that nothing hangs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import odtc
from benchmarks.models.digits import bn_model, digits_data, digits_model
from odtc.artifact import Artifact
from odtc.core.errors import DeviceError, ExitCode, UsageError
from tests.fast import fast_if
from tests.gpu.on_device import KINDS

# What lavapipe's kernels can use of a buffer.
RANGE = 128 << 20
SMALLER = (
    "compile the model with a --memory-budget (`odtc plan` says which can be met), or for a "
    "smaller batch; a budget of auto has several plans"
)
# PoCL then has 1 GiB, of which a buffer may have a quarter.
LITTLE = {"POCL_MEMORY_LIMIT": "1"}


def digits(folder: Path, target: str, batch: int) -> Artifact:
    onnx.save(digits_model(), folder / "m.onnx")
    return odtc.compile(folder / "m.onnx", target, batch=batch)


def of_several_plans(folder: Path, target: str, batch: int) -> Artifact:
    """With normalisations, which can be computed again."""
    onnx.save(bn_model(), folder / "m.onnx")
    artifact = odtc.compile(folder / "m.onnx", target, batch=batch, memory_budget="auto")
    assert len(artifact.manifest.plans) >= 2
    return artifact


def apart(code: str, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a program in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", "import sys, odtc, numpy as np\n" + code, *map(str, arguments)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


STEP = """
from odtc.core.errors import OdtcError
trainer = odtc.load(sys.argv[1]).trainer()
shape = trainer._manifest.inputs[0].shape
try:
    print(trainer.step(np.zeros(shape, "float32"), np.zeros(shape[0], "int64"), lr=0.1))
except OdtcError as error:
    print(f"{type(error).__name__}: {error}")
"""


def test_no_memory_for_the_arena_through_opencl(tmp_path: Path) -> None:
    artifact = digits(tmp_path, "host-opencl", 16_384)
    arena = artifact.memory.arena_bytes
    assert arena > 256 << 20
    artifact.save(tmp_path / "m.odtc")
    said = apart(STEP, tmp_path / "m.odtc", **LITTLE).stdout
    assert said.strip() == (
        f"DeviceError: there is no memory for a step's arena of {arena:,} bytes: a buffer is "
        "larger than the device allows (OpenCL error -61)\n"
        "  where: this machine\n"
        f"  hint: {SMALLER}"
    )


def test_no_memory_for_the_arena_through_vulkan(tmp_path: Path) -> None:
    artifact = digits(tmp_path, "host-vulkan", 9000)
    arena = artifact.memory.arena_bytes
    assert arena > RANGE
    trainer = artifact.trainer()
    with pytest.raises(DeviceError) as error:
        trainer.step(*zeros(artifact), lr=0.1)
    assert str(error.value) == (
        f"there is no memory for a step's arena of {arena:,} bytes: a kernel on this device can "
        f"use {RANGE:,} bytes of a buffer\n"
        "  where: this machine\n"
        f"  hint: {SMALLER}"
    )


def zeros(artifact: Artifact) -> tuple[np.ndarray, np.ndarray]:
    (x,) = artifact.manifest.inputs
    return np.zeros(x.shape, "float32"), np.zeros(x.shape[0], "int64")


@pytest.mark.slow
def test_a_budget_as_the_message_says_is_met(tmp_path: Path) -> None:
    """And one of several plans is taken by itself."""
    artifact = of_several_plans(tmp_path, "host-vulkan", 14_000)
    fits = [plan for plan in artifact.manifest.plans if plan.arena_bytes <= RANGE]
    assert 0 < len(fits) < len(artifact.manifest.plans)
    trainer = artifact.trainer()
    assert np.isfinite(trainer.step(*zeros(artifact), lr=0.1))
    assert trainer.plan == fits[0]


def test_no_memory_for_a_tensor(tmp_path: Path) -> None:
    features, batch = 4096, 10_000
    w = np.zeros((features, 4), "float32")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "wide",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", features])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])],
        [numpy_helper.from_array(w, "w")],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), tmp_path / "m.onnx")
    artifact = odtc.compile(tmp_path / "m.onnx", "host-vulkan", batch=batch)
    with pytest.raises(DeviceError) as error:
        artifact.trainer()
    size = sum(each.spec.nbytes for each in artifact.manifest.arguments)
    assert str(error.value) == (
        f"there is no memory for the tensors of a step, {size:,} bytes: a kernel on this device "
        f"can use {RANGE:,} bytes of a buffer\n"
        "  where: this machine\n"
        "  hint: compile the model for a smaller batch, train less of it, or take a larger device"
    )


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library in front of the drivers that fails."""
    library = tmp_path_factory.mktemp("faults") / "failing.so"
    source = Path(__file__).with_name("failing_device.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


def trained(folder: Path, failing: Path, **failure: int) -> subprocess.CompletedProcess[str]:
    """Runs `odtc train` on `m.odtc` with drivers that fail as the variables say."""
    x, y, *_ = digits_data()
    np.savez(folder / "d.npz", x=x, y=y)
    command = ["train", "m.odtc", "--data", "d.npz", "--steps", "40", "--lr", "0.01"]
    return subprocess.run(
        [sys.executable, "-m", "odtc", *command, "--checkpoint", "c.safetensors"],
        env=os.environ
        | {"LD_PRELOAD": str(failing)}
        | {name: str(value) for name, value in failure.items()},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


LOST = {
    "opencl": r"the device was lost: \w+: the device is not available \(OpenCL error -2\)",
    "vulkan": r"the device was lost: .*: the driver gave the device up, or it is gone "
    r"\(Vulkan error -4\)",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("calls", fast_if(bool, [0, 20]))
def test_a_device_that_is_lost(kind: str, calls: int, failing: Path, tmp_path: Path) -> None:
    """At its first call or in the middle of a run; the process ends by itself, and soon."""
    digits(tmp_path, f"host-{kind}", 32).save(tmp_path / "m.odtc")
    done = trained(tmp_path, failing, CALLS_BEFORE=calls, OPENCL_CODE=-2, VULKAN_CODE=-4)
    assert done.returncode == ExitCode.DEVICE_LOST, done.stderr
    assert re.search(LOST[kind], done.stderr), done.stderr
    assert "hint: start anew from the last checkpoint" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_fails_at_a_launch_is_not_tried_again(failing: Path, tmp_path: Path) -> None:
    """Some drivers allocate when a kernel first runs: others ran before, and maybe an update."""
    of_several_plans(tmp_path, "host-opencl", 32).save(tmp_path / "m.odtc")
    done = trained(tmp_path, failing, CALLS_BEFORE=3, OPENCL_CODE=-4)
    assert done.returncode == ExitCode.DEVICE
    assert re.search(r"the device failed: .*out of device memory \(OpenCL error -4\)", done.stderr)
    assert "hint: compile the model with a --memory-budget" in done.stderr


def test_a_gpus_state_lies_in_no_files(tmp_path: Path) -> None:
    artifact = digits(tmp_path, "host-opencl", 4)
    with pytest.raises(UsageError, match="the opencl device reads none") as caught:
        artifact.trainer(offload_state=True)
    assert caught.value.where == "offload_state"
    assert caught.value.hint
