"""Float16 on GPUs: in memory on all of them, multiplied by those that compute with it."""

import itertools
import re
import shutil
import subprocess
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
from tests.backends.kernels.half_bounds import assert_as_exact_as_half, convolution_references
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


@pytest.fixture
def host_has_half(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lavapipe computes with float16, as any kernel of these tests does."""
    host = replace(OF_HOSTS["host-vulkan"], half=frozenset({"vulkan"}))
    monkeypatch.setitem(OF_HOSTS, "host-vulkan", host)


@pytest.mark.usefixtures("host_has_half")
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("transposed", fast_if(any, [(0, 0), (0, 1), (1, 0), (1, 1)]))
@pytest.mark.parametrize("sizes", SIZES)
def test_matrices(machine: str, transposed: tuple[int, int], sizes: tuple[int, ...]) -> None:
    count, rows, depth, columns = sizes
    a, b = noise(count, rows, depth), noise(count, depth, columns)
    stored = [x.swapaxes(1, 2).copy() if t else x for x, t in zip((a, b), transposed, strict=True)]
    out = (count, rows, columns)
    found = product("vulkan", "matmul", transposed, stored, out, MACHINES[machine])
    exact = a.astype(np.float64) @ b
    assert_as_exact_as_half(found, exact, a.astype(np.float64) ** 2 @ b.astype(np.float64) ** 2)
    # That of float32 has a thousandth of this error.
    assert np.abs(found - exact).max() > 1e-4 * np.abs(exact).max()


@pytest.mark.usefixtures("host_has_half")
@pytest.mark.parametrize("case", fast_if([("large", 1), ("mali-g78", 2)].__contains__, CASES))
def test_convolutions(case: tuple[str, int]) -> None:
    machine, stride = case
    window = {"stride": (stride, stride), "pad": (1, 1, 1, 1)}
    x, w = noise(2, 18, 9, 8), noise(20, 18, 3, 3)
    out = [(size - 1) // stride + 1 for size in (9, 8)]
    dy = noise(2, 20, *out)
    numbers = [n for i in (0, 1) for n in ((9, 8)[i], 3, stride, 1, 1, out[i])]
    references = convolution_references(window, x, w, dy)
    cases = {"convolution": [x, w], "data-gradient": [dy, w], "weight-gradient": [x, dy]}
    for (family, arrays), (exact, squares) in zip(cases.items(), references, strict=True):
        found = product("vulkan", family, numbers, arrays, exact.shape, MACHINES[machine])
        assert_as_exact_as_half(found, exact, squares)


def exported(name: str, folder: Path) -> Path:
    net = SMALL[name]
    export(make(net), next(batches(net))[0], folder / "m.onnx")
    return folder / "m.onnx"


def losses_of(artifact: odtc.Artifact, net: TorchModel) -> list[float]:
    """Of five steps of one batch."""
    trainer, (inputs, labels) = artifact.trainer(), next(batches(net))
    return [trainer.step(inputs, labels, lr=net.lr) for _ in range(5)]


FAMILIES = "lenet squeezenet mobilenet_v2 resnet18 densenet40_12 bert_base char_cnn_lstm".split()


@pytest.mark.parametrize("name", fast_if("lenet".__eq__, FAMILIES))
def test_products_multiply_it_where_the_gpu_computes_with_it(
    name: str, tmp_path: Path, made: list[Shader], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Losses of five steps are within a hundredth of those in float32."""
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
    assert losses_of(mixed, net) == pytest.approx(losses_of(single, net), rel=1e-2)


@pytest.mark.parametrize("kind", KINDS)
def test_other_gpus_hold_it_in_memory(kind: str, tmp_path: Path, made: list[Shader]) -> None:
    """Any GPU: no kernel computes with it, and what is saved takes half the bytes."""
    onnx.save(bn_model(), tmp_path / "m.onnx")
    x, y, *_ = digits_data()
    single, mixed = (
        odtc.compile(tmp_path / "m.onnx", target, batch=32, precision=precision)
        for target, precision in (("host-cpu", "float32"), (f"host-{kind}", "mixed"))
    )
    assert mixed.manifest.notes[-1].startswith("arithmetic is float32")
    assert not any(Capability.FLOAT16 in capabilities(each) for each in made)
    saved = [each.spec.dtype for each in mixed.memory.plan.tensors]
    assert saved.count("float16") >= 4
    if kind == "opencl":
        sources = opencl_module(mixed._bundle.library.read_bytes())[1].values()
        assert any("vload_half" in source for source in sources)
        assert not any("cl_khr_fp16" in source for source in sources)
    trainers = [each.trainer() for each in (single, mixed)]
    for step in range(5):
        part = slice(32 * step, 32 * step + 32)
        found = [trainer.step(x[part], y[part], lr=0.05) for trainer in trainers]
        assert found[1] == pytest.approx(found[0], rel=1e-3)


@pytest.fixture(scope="module")
def phone_sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    path = exported("lenet", tmp_path_factory.mktemp("model"))
    artifact = odtc.compile(path, "android-opencl{gpu=mali-g76}", precision="mixed")
    return opencl_module(artifact._bundle.library.read_bytes())[1]


@needs(shutil.which("clang-15"), reason="no clang-15, which PoCL brings on Debian 12")
def test_a_compiler_takes_the_source_for_phones(phone_sources: dict[str, str]) -> None:
    """None of this machine's devices computes with float16 through OpenCL."""
    options = "-x cl -cl-std=CL1.2 -target spir64 -fsyntax-only -Xclang -finclude-default-header"
    for name, source in phone_sources.items():
        done = subprocess.run(
            ["clang-15", *options.split(), "-Xclang", "-cl-ext=+cl_khr_fp16", "-"],
            input=source,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{name}: {done.stderr}"
    pairs = [source for source in phone_sources.values() if re.search(r"\bhalf2\b", source)]
    assert pairs
    assert all("*(__local half2*)" in source for source in pairs)


def test_a_device_that_lacks_it_is_named(tmp_path: Path) -> None:
    """PoCL computes with no float16; its compiler would speak of the source."""
    path, net = exported("lenet", tmp_path), SMALL["lenet"]
    mixed = odtc.compile(path, "host-opencl{gpu=mali-g76}", precision="mixed")
    with pytest.raises(DeviceError, match=r"needs arithmetic with float16, which .* lacks"):
        losses_of(mixed, net)
