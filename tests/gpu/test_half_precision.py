"""Float16 on GPUs: in memory on all of them, multiplied by those that compute with it."""

import itertools
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

import odtc
from benchmarks.models.digits import bn_model, digits_data
from benchmarks.models.pytorch.export import export
from benchmarks.models.pytorch.spec import TorchModel, batches, make
from benchmarks.models.pytorch.table import SMALL
from odtc.backends.gpu import tiling as tiles
from odtc.backends.gpu.known import GPUS, OF_HOSTS
from odtc.backends.gpu.machine import LARGE
from odtc.backends.spirv.assemble import Shader
from odtc.backends.spirv.opcodes import Capability
from odtc.core.errors import DeviceError
from odtc.core.specs import Role
from tests.backends.kernels.half_bounds import convolution_references
from tests.fast import fast_if
from tests.gpu.on_device import KINDS
from tests.gpu.one_product import noise, product
from tests.gpu.spirv.module_reader import opencl_module
from tests.gpu.spirv.spirv_tools import capabilities, check_valid
from tests.needs import needs

# Groups of 64 items and of 256, and sums in few parts and in many.
MACHINES = {
    name: replace(gpu, multiplies_half=True)
    for name, gpu in {"mali-g78": GPUS["mali-g78"], "large": LARGE}.items()
}
SIZES = [(1, 70, 133, 45), (2, 17, 1300, 90), (1, 16, 16, 16)]
CASES = list(itertools.product(MACHINES, (1, 2)))


@pytest.fixture(autouse=True)
def host_has_half(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lavapipe computes with float16, as any kernel of these tests does."""
    host = replace(OF_HOSTS["host-vulkan"], half=frozenset({"vulkan"}))
    monkeypatch.setitem(OF_HOSTS, "host-vulkan", host)


def halved(array: np.ndarray) -> np.ndarray:
    """Operands as a product reads them, for one in float64."""
    return array.astype(np.float16).astype(np.float64)


def assert_sums_are_single(found: np.ndarray, exact: np.ndarray, terms: int) -> None:
    """Compares a product with that of rounded operands.

    Float32 holds the product of two float16. Of terms around zero a sum has errors of some units in
    the last place; a run of 16 terms in float16 would have 8,192 times those of a term.
    """
    assert np.abs(found - exact).max() <= 2.0**-24 * 4 * terms**0.5 * np.abs(exact).max()


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("transposed", fast_if(any, [(0, 0), (0, 1), (1, 0), (1, 1)]))
@pytest.mark.parametrize("sizes", SIZES)
def test_matrices(machine: str, transposed: tuple[int, int], sizes: tuple[int, ...]) -> None:
    count, rows, depth, columns = sizes
    a, b = noise(count, rows, depth), noise(count, depth, columns)
    stored = [x.swapaxes(1, 2).copy() if t else x for x, t in zip((a, b), transposed, strict=True)]
    out = (count, rows, columns)
    found = product("vulkan", "matmul", transposed, stored, out, MACHINES[machine])
    assert_sums_are_single(found, halved(a) @ halved(b), depth)
    exact = a.astype(np.float64) @ b
    # That of float32 has a thousandth of this error.
    assert np.abs(found - exact).max() > 1e-4 * np.abs(exact).max()


# Of machines without arithmetic in float16, by interface; what they compute is float32's.
STORING = {"opencl": LARGE, "vulkan": replace(LARGE, offset_bits=32)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("transposed", [(0, 0), (1, 1)])
@pytest.mark.parametrize("sizes", fast_if(SIZES[1].__ne__, [*SIZES, (1, 64, 96, 128)]))
def test_operands_are_read_as_they_are_stored(
    kind: str, transposed: tuple[int, int], sizes: tuple[int, ...]
) -> None:
    """In vectors where rows hold whole ones; of each operand, and beside one of float32."""
    count, rows, depth, columns = sizes
    a, b = noise(count, rows, depth).astype(np.float16), noise(count, depth, columns)
    stored = [x.swapaxes(1, 2).copy() if t else x for x, t in zip((a, b), transposed, strict=True)]
    out = (count, rows, columns)
    exact = a.astype(np.float64) @ b
    found = product(kind, "matmul", transposed, stored, out, STORING[kind])
    assert np.abs(found - exact).max() < 1e-6 * depth
    if kind == "vulkan":
        found = product(kind, "matmul", transposed, stored, out, MACHINES["large"])
        assert_sums_are_single(found, a.astype(np.float64) @ halved(b), depth)


@pytest.mark.parametrize("case", fast_if([("large", 1), ("mali-g78", 2)].__contains__, CASES))
def test_convolutions(case: tuple[str, int]) -> None:
    machine, stride = case
    window = {"stride": (stride, stride), "pad": (1, 1, 1, 1)}
    x, w = noise(2, 18, 9, 8), noise(20, 18, 3, 3)
    out = [(size - 1) // stride + 1 for size in (9, 8)]
    dy = noise(2, 20, *out)
    numbers = [n for i in (0, 1) for n in ((9, 8)[i], 3, stride, 1, 1, out[i])]
    references = convolution_references(window, *map(halved, (x, w, dy)))
    cases = {
        "convolution": ([x, w], 18 * 9),
        "data-gradient": ([dy, w], 20 * 9),
        "weight-gradient": ([x, dy], dy.size // 20),
    }
    for (family, (arrays, terms)), (exact, _) in zip(cases.items(), references, strict=True):
        found = product("vulkan", family, numbers, arrays, exact.shape, MACHINES[machine])
        assert_sums_are_single(found, exact, terms)


def exported(name: str, folder: Path) -> Path:
    net = SMALL[name]
    export(make(net), next(batches(net))[0], folder / "m.onnx")
    return folder / "m.onnx"


def losses_of(artifact: odtc.Artifact, net: TorchModel, steps: int = 20) -> list[float]:
    """Of some steps of one batch."""
    trainer, (inputs, labels) = artifact.trainer(), next(batches(net))
    return [trainer.step(inputs, labels, lr=net.lr) for _ in range(steps)]


FAMILIES = "lenet squeezenet mobilenet_v2 resnet18 densenet40_12 bert_base char_cnn_lstm".split()


@pytest.mark.parametrize("name", fast_if("lenet".__eq__, FAMILIES))
def test_products_multiply_it_where_the_gpu_computes_with_it(
    name: str, tmp_path: Path, made: list[Shader], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Losses of twenty steps fall, and are within a hundredth of those in float32."""
    # Models are small here: so are their products.
    monkeypatch.setattr(tiles, "_LEAST_OF_HALF", 4)
    path, net = exported(name, tmp_path), SMALL[name]
    mixed, single = (
        odtc.compile(path, target, loss=net.loss, precision=precision)
        for target, precision in (
            ("host-vulkan{gpu=mali-g78}", "mixed"),
            ("host-cpu", "float32"),
        )
    )
    count, _, said = mixed.manifest.notes[-1].partition(" ")
    assert said == "kernels multiply float16 and add up float32; the loss is scaled"
    products = [each for each in made if Capability.FLOAT16 in capabilities(each)]
    assert len(products) == int(count) > 0
    for shader in made:
        check_valid(shader)
    losses = losses_of(mixed, net)
    assert losses == pytest.approx(losses_of(single, net), rel=1e-2)
    assert losses[-1] < losses[0]


OTHERS = ["host-opencl", "host-vulkan{gpu=adreno-540}"]


@pytest.mark.parametrize("target", fast_if("host-opencl".__eq__, OTHERS))
def test_other_gpus_hold_it_in_memory(target: str, tmp_path: Path, made: list[Shader]) -> None:
    """Any GPU: no kernel computes with it, and what is saved takes half the bytes."""
    onnx.save(bn_model(), tmp_path / "m.onnx")
    x, y, *_ = digits_data()
    single, mixed = (
        odtc.compile(tmp_path / "m.onnx", target, batch=32, precision=precision)
        for target, precision in (("host-cpu", "float32"), (target, "mixed"))
    )
    assert mixed.manifest.notes[-1].startswith("arithmetic is float32: ")
    is_named = "gpu=" in target
    said = "has none for float16" if is_named else "gpu= names no GPU that is known to compute with"
    assert said in mixed.manifest.notes[-1]
    assert not any(Capability.FLOAT16 in capabilities(each) for each in made)
    saved = [each.spec.dtype for each in mixed.memory.plan.tensors]
    assert saved.count("float16") >= 4
    if target == "host-opencl":
        sources = opencl_module(mixed._bundle.library.read_bytes())[1].values()
        assert any("vload_half" in source for source in sources)
        assert not any("cl_khr_fp16" in source for source in sources)
    trainers = [each.trainer() for each in (single, mixed)]
    for step in range(20):
        part = slice(32 * step, 32 * step + 32)
        found = [trainer.step(x[part], y[part], lr=0.05) for trainer in trainers]
        assert found[1] == pytest.approx(found[0], rel=1e-3)


def phone_sources(network: str, gpu: str, folder: Path) -> dict[str, str]:
    path = exported(network, folder)
    artifact = odtc.compile(path, f"android-opencl{{gpu={gpu}}}", precision="mixed")
    return opencl_module(artifact._bundle.library.read_bytes())[1]


def assert_compiles(name: str, source: str, macros: Iterable[str]) -> None:
    options = "-x cl -cl-std=CL1.2 -target spir64 -fsyntax-only -Xclang -finclude-default-header"
    defined = [f"-D{each}" for each in macros]
    done = subprocess.run(
        ["clang-15", *options.split(), "-Xclang", "-cl-ext=+cl_khr_fp16", *defined, "-"],
        input=source,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{name}, {defined}: {done.stderr}"


@needs(shutil.which("clang-15"), reason="no clang-15, which PoCL brings on Debian 12")
def test_a_compiler_takes_images_of_float16_in_the_source_for_phones(tmp_path: Path) -> None:
    """All that the source offers, at once."""
    sources = phone_sources("bert_base", "adreno-750", tmp_path)
    offered = {name: re.findall(r"#ifdef (ODTC_IMAGE\w+)", each) for name, each in sources.items()}
    for name, macros in offered.items():
        if macros:
            assert_compiles(name, sources[name], macros)
            assert_compiles(name, sources[name], ())
    halves = {name for name, each in offered.items() if any("HALVES" in macro for macro in each)}
    assert halves
    # What is rounded as it is read is a buffer.
    for name, source in sources.items():
        for number in re.findall(r"convert_half4\(+READ_(\d+)", source):
            assert f"ODTC_IMAGE_{number}" not in offered[name]


@needs(shutil.which("clang-15"), reason="no clang-15, which PoCL brings on Debian 12")
def test_a_compiler_takes_the_source_for_phones(tmp_path: Path) -> None:
    """None of this machine's devices computes with float16 through OpenCL."""
    sources = phone_sources("lenet", "mali-g76", tmp_path)
    for name, source in sources.items():
        assert_compiles(name, source, ())
        assert not re.search(r"\[\w+\.s3\]", source), "a vector that is read by elements"
    products = [source for source in sources.values() if "__local half " in source]
    assert products
    for source in products:
        # What a group shares is widened as it is read.
        assert re.search(r"convert_float([24])\(\*\(__local half\1\*\)", source)


def test_a_device_that_lacks_it_is_named(tmp_path: Path) -> None:
    """PoCL computes with no float16; its compiler would speak of the source."""
    path, net = exported("lenet", tmp_path), SMALL["lenet"]
    mixed = odtc.compile(path, "host-opencl{gpu=mali-g76}", precision="mixed")
    with pytest.raises(DeviceError, match=r"needs arithmetic with float16, which .* lacks"):
        losses_of(mixed, net)


def test_a_step_that_overflows_changes_nothing_and_halves_the_scale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gradients fit in float32 here, but not in what products multiply."""
    monkeypatch.setattr(tiles, "_LEAST_OF_HALF", 4)
    onnx.save(bn_model(), tmp_path / "m.onnx")
    x, y, *_ = digits_data()
    update = odtc.Update("sgd", loss_scale=odtc.LossScale(initial=2.0**30))
    trainer = odtc.compile(
        tmp_path / "m.onnx", "host-vulkan", batch=64, optimizer=update, precision="mixed"
    ).trainer()
    scales, kept = [2.0**30], 0
    for _ in range(24):
        before = trainer.parameters()
        loss = trainer.step(x[:64], y[:64], lr=0.1)
        assert np.isfinite(loss)
        scales.append(scale_of(trainer))
        after = trainer.parameters()
        same = {name: np.array_equal(before[name], each) for name, each in after.items()}
        # Running statistics follow the batch all the same.
        weights = [same[name] for name in same if name.endswith(("weight", "scale", "bias"))]
        assert all(weights) if scales[-1] < scales[-2] else not any(weights)
        assert scales[-1] in (scales[-2], scales[-2] / 2)
        kept += all(weights)
    assert 4 < kept < 20


def scale_of(trainer: odtc.Trainer) -> float:
    """The loss scale of a trainer, as it is on the device."""
    (item,) = (
        item
        for item in trainer._manifest.of_role(Role.STATE)
        if item.spec.name == "update/loss-scale"
    )
    return float(trainer._engine.read([item])[item])
