"""Operands that are read as images: the values of buffers, and nothing else read so."""

import itertools
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import odtc
from benchmarks.models.pytorch.spec import batches
from benchmarks.models.pytorch.table import SMALL
from odtc.backends.gpu import tiling
from odtc.backends.gpu.known import GPUS
from odtc.backends.spirv.assemble import Shader
from odtc.backends.targets import parse_target
from odtc.core.artifact.bundle import PROGRAM
from odtc.core.process.cxx import cc_command
from tests.fast import fast_if
from tests.gpu import on_device
from tests.gpu.on_device import KINDS
from tests.gpu.one_product import noise, product
from tests.gpu.spirv.spirv_tools import check_valid, images
from tests.gpu.test_half_precision import exported
from tests.native.reader import read
from tests.numeric.mlp import mlp_artifact

ADRENO = "adreno-750"
# Which computes with no float16.
OLDER = "adreno-530"


def compile_for(gpu: str, patch: pytest.MonkeyPatch) -> None:
    """Kernels of these tests are compiled for a phone's GPU, and run here."""
    of = parse_target
    patch.setattr(on_device, "parse_target", lambda text: of(f"{text}{{gpu={gpu}}}"))


def without_images(gpu: str, patch: pytest.MonkeyPatch) -> None:
    patch.setitem(GPUS, gpu, replace(GPUS[gpu], images=False))


def test_whose_kernels_read_images() -> None:
    """Adrenos'; where the GPU is not named, nobody knows of such a cache."""
    assert {name.split("-")[0] for name, gpu in GPUS.items() if gpu.images} == {"adreno"}
    assert all(gpu.images for name, gpu in GPUS.items() if name.startswith("adreno"))


def products() -> Mapping[str, tuple[str, Sequence[int], list[np.ndarray], tuple[int, ...]]]:
    """Products in each order, a convolution of one tap and its gradients, and one of nine taps."""
    found = {
        f"matmul-{a}{b}": (
            "matmul",
            (a, b),
            [noise(2, *((64, 48)[:: 1 - 2 * a])), noise(2, *((48, 80)[:: 1 - 2 * b]))],
            (2, 64, 80),
        )
        for a, b in itertools.product((0, 1), (0, 1))
    }
    for taps in (1, 3):
        pad = taps // 2
        numbers = [n for _ in (0, 1) for n in (8, taps, 1, 1, pad, 8)]
        x, w, dy = noise(2, 16, 8, 8), noise(24, 16, taps, taps), noise(2, 24, 8, 8)
        found |= {
            f"convolution-{taps}": ("convolution", numbers, [x, w], dy.shape),
            f"data-gradient-{taps}": ("data-gradient", numbers, [dy, w], x.shape),
            f"weight-gradient-{taps}": ("weight-gradient", numbers, [x, dy], w.shape),
        }
    return found


# Operands that are plain reads of whole vectors: of windows none is, nor weights of nine taps.
OFFERED = dict.fromkeys(products(), 2)
OFFERED |= {"convolution-3": 0, "data-gradient-3": 0, "weight-gradient-3": 1}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", products())
def test_products_are_those_of_buffers(
    kind: str, name: str, monkeypatch: pytest.MonkeyPatch, made: list[Shader]
) -> None:
    compile_for(ADRENO, monkeypatch)
    family, numbers, arrays, out = products()[name]
    found = product(kind, family, numbers, arrays, out, GPUS[ADRENO])
    offered = [images(shader) for shader in made]
    without_images(ADRENO, monkeypatch)
    assert np.array_equal(found, product(kind, family, numbers, arrays, out, GPUS[ADRENO]))
    if kind == "vulkan":
        assert max(map(len, offered)) == OFFERED[name]
        assert not any(images(shader) for shader in made[len(offered) :])
        for shader in made:
            check_valid(shader)


HALVES = [("opencl", OLDER), ("vulkan", OLDER), ("vulkan", ADRENO)]


@pytest.mark.parametrize(("kind", "gpu"), HALVES)
@pytest.mark.parametrize("transposed", [(0, 0), (1, 1)])
def test_products_of_float16_are_those_of_buffers(
    kind: str,
    gpu: str,
    transposed: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
    made: list[Shader],
) -> None:
    """An operand is float16, the other one is not; the product is of float32 or of both rounded."""
    compile_for(gpu, monkeypatch)
    _, numbers, (a, b), out = products()["matmul-{}{}".format(*transposed)]
    arrays = [a.astype(np.float16), b]
    machine = replace(GPUS[gpu], multiplies_half=kind in GPUS[gpu].half)
    found = product(kind, "matmul", numbers, arrays, out, machine)
    offered = list(made)
    without_images(gpu, monkeypatch)
    assert np.array_equal(found, product(kind, "matmul", numbers, arrays, out, machine))
    for shader in offered:
        assert len(images(shader, "halves")) == 1
        # What is rounded as it is read stays a buffer: a driver may round an image's elsewhere.
        assert len(images(shader)) == (1 if machine.multiplies_half else 2)
        check_valid(shader)


def launches_of(
    path: Path, target: str, name: str, precision: str = "float32", steps: int = 3
) -> tuple[list[float], dict[str, float]]:
    """Losses of some steps, and how many buffers each launch reads as images."""
    net = SMALL[name]
    trainer = odtc.compile(path, target, loss=net.loss, precision=precision).trainer()
    inputs, labels = next(batches(net))
    losses = [trainer.step(inputs, labels, lr=net.lr) for _ in range(steps)]
    found = {
        each.kernel: each.figures.get("images", 0)
        for launches in trainer.launches().values()
        for each in launches
    }
    return losses, found


NETS = ["lenet", "mobilenet_v2", "vit_tiny", "bert_base"]


@pytest.mark.parametrize("kind", fast_if("opencl".__eq__, KINDS))
@pytest.mark.parametrize("name", fast_if("lenet".__eq__, NETS))
def test_steps_have_the_losses_of_those_that_read_buffers(
    kind: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, target = exported(name, tmp_path), f"host-{kind}{{gpu={ADRENO}}}"
    losses, found = launches_of(path, target, name)
    without_images(ADRENO, monkeypatch)
    (tmp_path / "other").mkdir()
    expected, nothing = launches_of(exported(name, tmp_path / "other"), target, name)
    assert losses == expected
    assert sum(found.values()) > 0 == sum(nothing.values())


@pytest.mark.parametrize(
    ("kind", "gpu"),
    [*(pytest.param(*each, marks=pytest.mark.slow) for each in HALVES[:-1]), HALVES[-1]],
)
@pytest.mark.parametrize("name", fast_if("lenet".__eq__, ["lenet", "bert_base"]))
def test_steps_in_mixed_precision(
    kind: str, gpu: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Models are small here: so are their products.
    monkeypatch.setattr(tiling, "_LEAST_OF_HALF", 4)
    path, target = exported(name, tmp_path), f"host-{kind}{{gpu={gpu}}}"
    losses, found = launches_of(path, target, name, "mixed")
    without_images(gpu, monkeypatch)
    (tmp_path / "other").mkdir()
    other = exported(name, tmp_path / "other")
    expected, nothing = launches_of(other, target, name, "mixed")
    assert losses == expected
    assert sum(found.values()) > 0 == sum(nothing.values())


def test_opencl_reads_no_image_of_a_buffer_that_holds_more_of_a_launch(tmp_path: Path) -> None:
    """What a launch writes there meanwhile, OpenCL says nothing of."""
    net = SMALL["lenet"]
    path, target = exported("lenet", tmp_path), f"host-opencl{{gpu={ADRENO}}}"
    artifact = odtc.compile(path, target, loss=net.loss)
    program = read((artifact._bundle.root / PROGRAM).read_bytes())
    alone: dict[str, int] = {}
    for function in program.functions:
        for kernel, operands in function["calls"]:
            tensors = [program.tensors[number] for number in operands]
            places = Counter((each["in"], each["number"]) for each in tensors)
            count = sum(count == 1 for count in places.values())
            name = kernel.removeprefix("__tvm_ffi_")
            alone[name] = min(count, alone.get(name, count))
    found = {
        kernel: sum(each.figures.get("images", 0) for each in launches)
        for kernel, launches in artifact.trainer().launches().items()
    }
    assert any(found.values())
    assert all(count <= alone[kernel] for kernel, count in found.items())


STEPS = """
import sys, odtc
from tests.numeric.mlp import batches
trainer = odtc.load(sys.argv[1]).trainer()
print([trainer.step(*batches(1)[0], lr=0.1) for _ in range(3)])
print(sum(e.figures.get("images", 0) for launches in trainer.launches().values() for e in launches))
"""


@pytest.fixture(scope="module")
def no_images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library in front of OpenCL's, by which a device has none."""
    source = Path(__file__).parent / "runtime/without_images.c"
    library = tmp_path_factory.mktemp("library") / "without_images.so"
    flags = ("-O1", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror")
    subprocess.run([*cc_command(), *flags, str(source), "-o", str(library), "-ldl"], check=True)
    return library


def test_a_device_of_opencl_without_images_reads_buffers(tmp_path: Path, no_images: Path) -> None:
    update = odtc.SGD(momentum=0.9)
    artifact = mlp_artifact(tmp_path, update, target=f"host-opencl{{gpu={ADRENO}}}")
    artifact.save(tmp_path / "m.odtc")

    def steps(**environment: str) -> list[str]:
        command = [sys.executable, "-c", STEPS, str(tmp_path / "m.odtc")]
        done = subprocess.run(
            command, env=os.environ | environment, capture_output=True, text=True, check=True
        )
        return done.stdout.splitlines()

    losses, images = steps()
    assert float(images) > 0
    for limit in ("none", "small"):
        assert steps(LD_PRELOAD=str(no_images), IMAGES=limit) == [losses, "0"]
