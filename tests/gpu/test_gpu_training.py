"""Whole training steps on this machine's devices, against PyTorch."""

import os
import re
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import onnx
import pytest

import odtc
from benchmarks.models.digits import bn_model, digits_data, digits_model
from benchmarks.models.pytorch.table import SMALL
from odtc.backends.spirv.assemble import Shader
from odtc.core.errors import DeviceError, UnsupportedError
from tests.fast import fast_if
from tests.gpu.on_device import KINDS
from tests.gpu.spirv.spirv_tools import check_valid
from tests.models.parity import check_parity

FAST = ["lenet"]
SLOW = (
    "squeezenet bert_base char_cnn_lstm mobilenet_v2 resnet18 densenet40_12 googlenet gpt2 "
    "vit_tiny unet keyword mobilenet_v3 seq2seq"
).split()


@pytest.mark.parametrize("name", fast_if(FAST.__contains__, [*FAST, *SLOW]))
def test_as_pytorch_trains_it(name: str, tmp_path: Path) -> None:
    check_parity(SMALL[name], "torchscript", tmp_path, "host-opencl")


@pytest.mark.parametrize("name", fast_if(FAST.__contains__, [*FAST, *SLOW]))
def test_as_pytorch_trains_it_through_vulkan(name: str, tmp_path: Path, made: list[Shader]) -> None:
    """With kernels that the validator accepts, and that ask little of a device."""
    check_parity(SMALL[name], "torchscript", tmp_path, "host-vulkan")
    assert made
    for shader in made:
        check_valid(shader)


UPDATES = [
    odtc.Update(odtc.Adam(), clip_norm=1.0),
    odtc.Update(odtc.LAMB(), accumulate=2, ema=0.9),
    odtc.Update(odtc.SGD(momentum=0.9), loss_scale="dynamic"),
]


def takes_little(case: tuple[str, odtc.Update]) -> bool:
    kind, optimizer = case
    return bool(optimizer.loss_scale if kind == "vulkan" else optimizer.accumulate > 1)


@pytest.mark.parametrize("case", fast_if(takes_little, product(KINDS, UPDATES)), ids=str)
def test_updates_as_on_the_cpu(case: tuple[str, odtc.Update], tmp_path: Path) -> None:
    """Norms, conditions and accumulators: values that a CPU's kernel would forward."""
    kind, optimizer = case
    onnx.save(bn_model(), tmp_path / "m.onnx")
    x, y, *_ = digits_data()
    trainers = [
        odtc.compile(tmp_path / "m.onnx", target, batch=32, optimizer=optimizer).trainer()
        for target in (f"host-{kind}", "host-cpu")
    ]
    for step in range(4):
        part = slice(32 * step, 32 * step + 32)
        gpu, cpu = (trainer.step(x[part], y[part], lr=0.01) for trainer in trainers)
        assert gpu == pytest.approx(cpu, rel=1e-5)
    found, expected = (trainer.parameters() for trainer in trainers)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-3, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("kind", fast_if("vulkan".__eq__, KINDS))
def test_a_scalar_is_trained_as_on_the_cpu(kind: str, tmp_path: Path) -> None:
    """Its gradient is one sum, and its update a kernel without any loop."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
        net (float[N, 40, 33] x) => (float[N, 40, 33] y) <float alpha = {0.5}> {
            t = Mul (x, alpha) y = Tanh (t) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    x = np.random.default_rng(0).standard_normal((4, 40, 33), dtype=np.float32)
    update, found = odtc.Update(odtc.Adam(), clip_norm=1.0), []
    for target in (f"host-{kind}", "host-cpu"):
        trainer = odtc.compile(
            tmp_path / "m.onnx", target, batch=4, loss="mse", optimizer=update, train="alpha"
        ).trainer()
        losses = [trainer.step(x, x, lr=0.1) for _ in range(3)]
        found.append([*losses, trainer.parameters()["alpha"].item()])
    np.testing.assert_allclose(*found, rtol=1e-5)


@pytest.mark.parametrize("kind", fast_if("vulkan".__eq__, KINDS))
def test_checkpoints_go_from_one_device_to_another(kind: str, tmp_path: Path) -> None:
    onnx.save(digits_model(), tmp_path / "m.onnx")
    x, y, *_ = digits_data()
    gpu, cpu = (
        odtc.compile(tmp_path / "m.onnx", target, batch=32).trainer()
        for target in (f"host-{kind}", "host-cpu")
    )
    gpu.step(x[:32], y[:32], lr=0.05)
    gpu.save_checkpoint(tmp_path / "c.safetensors")
    cpu.load_checkpoint(tmp_path / "c.safetensors")
    losses = [trainer.step(x[32:64], y[32:64], lr=0.05) for trainer in (gpu, cpu)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    np.testing.assert_allclose(gpu.evaluate(x[:7]), cpu.evaluate(x[:7]), rtol=1e-4, atol=1e-5)


def test_the_arena_is_one_buffer_of_the_device(tmp_path: Path) -> None:
    """A step allocates the arena that the artifact declares, and nothing else."""
    onnx.save(digits_model(), tmp_path / "m.onnx")
    artifact = odtc.compile(tmp_path / "m.onnx", "host-opencl", batch=32)
    sizes = {tensor.offset % 64 for tensor in artifact.memory.plan.tensors}
    assert sizes == {0}
    assert artifact.memory.arena_bytes <= 1.01 * artifact.memory.lower_bound_bytes


@pytest.mark.parametrize("kind", KINDS)
def test_the_headline_command_makes_a_library_that_a_phone_loads(kind: str, tmp_path: Path) -> None:
    """The gate of phones' libraries is part of compiling; see `backends/objects/elf.py`."""
    onnx.save(digits_model(), tmp_path / "m.onnx")
    artifact = odtc.compile(tmp_path / "m.onnx", f"android-{kind}", batch=32)
    assert artifact.manifest.triple == "aarch64-linux-android"
    with pytest.raises(DeviceError, match="the artifact is for aarch64"):
        artifact.trainer()


def test_a_device_of_small_work_groups_is_refused(tmp_path: Path) -> None:
    """Before anything is sent to it."""
    onnx.save(digits_model(), tmp_path / "m.onnx")
    odtc.compile(tmp_path / "m.onnx", "host-opencl", batch=4).save(tmp_path / "m.odtc")
    code = "import sys, odtc; odtc.load(sys.argv[1]).trainer()"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "m.odtc")],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"POCL_MAX_WORK_GROUP_SIZE": "128"},
    )
    told = (
        r"this machine's opencl device cannot run the artifact: the kernel \w+ has work-groups of "
        r"256 items; .+ takes at most 128\n  where: this machine\n  hint: compile the model for "
        r"another target"
    )
    assert re.search(told, done.stderr)


@pytest.mark.parametrize("target", ["android-opencl", "host-vulkan"])
def test_an_arena_that_kernels_cannot_count_is_refused(target: str, tmp_path: Path) -> None:
    onnx.save(digits_model(), tmp_path / "m.onnx")
    with pytest.raises(UnsupportedError, match=f"kernels of {target} can count 2,147,483,647"):
        odtc.compile(tmp_path / "m.onnx", target, batch=800_000)
