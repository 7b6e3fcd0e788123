"""Products in matrices that subgroups multiply, by plain code: this machine's devices have none."""

import itertools
import struct
from dataclasses import replace
from pathlib import Path

import pytest
import tvm
from tvm import tirx

import odtc
from benchmarks.models.pytorch.table import SMALL
from odtc.autoschedule.tuning.build import calling
from odtc.backends.cost.gpu_time import gpu_time
from odtc.backends.gpu import tiling
from odtc.backends.gpu.known import GPUS
from odtc.backends.gpu.machine import Gpu
from odtc.backends.gpu.matrix.grid import grid_of
from odtc.backends.gpu.product_loops import GPU_LOOPS
from odtc.backends.gpu.tile_speeds import OF_H200_MATRICES, TileSpeed
from odtc.backends.gpu.tiling import ProductExtent
from odtc.backends.lowering import plan_kernels
from odtc.backends.spirv.assemble import Shader, _code
from odtc.backends.spirv.opcodes import Capability
from odtc.backends.targets import parse_target
from odtc.backends.write_products import write_product
from odtc.core.errors import DeviceError
from odtc.core.ir.product_marks import WORKLOAD
from odtc.dialect.elements.dequantised import NIBBLES
from odtc.passes.checkpoint.work import operations
from odtc.passes.kernel.check_launches import launches_of, needs_of
from tests.backends.kernels.half_bounds import convolution_references
from tests.backends.products.quantised_matrix import drawn, product_with
from tests.fast import fast_if
from tests.gpu import on_device
from tests.gpu.matrices_by_items import multiply_by_items
from tests.gpu.on_device import run_kernel
from tests.gpu.one_product import noise, product, product_kernel
from tests.gpu.spirv.spirv_tools import (
    barriers,
    capabilities,
    extensions,
    matrices,
    shared_accesses,
    vectors_shared,
)
from tests.gpu.test_half_precision import (
    FAMILIES,
    assert_sums_are_single,
    exported,
    halved,
    losses_of,
)

STEPS = 2
TARGET = "host-vulkan{gpu=nvidia-h200}"
# As much as lavapipe's groups share.
H200 = replace(GPUS["nvidia-h200"], multiplies_half=True, local_bytes=32 << 10)
# Of each tile, with as many terms of a slice as fit.
TILES = {
    f"{tile.rows}x{tile.columns}-{tile.share}": replace(tile, terms=terms)
    for tile in OF_H200_MATRICES
    for terms in ((16,) if tile.rows * tile.columns >= 32 else (tile.terms,))
}


@pytest.fixture
def in_matrices(monkeypatch: pytest.MonkeyPatch) -> list[Shader]:
    """The kernels that multiply matrices, which run in loops of items."""
    made: list[Shader] = []
    multiply_by_items(monkeypatch, made)
    monkeypatch.setitem(GPUS, "nvidia-h200", H200)
    of = parse_target
    monkeypatch.setattr(on_device, "parse_target", lambda _: of(TARGET))
    return made


def of_tile(tile: TileSpeed) -> Gpu:
    return replace(H200, matrix_tiles=(tile,))


ORDERS = [(0, 0), (0, 1), (1, 0), (1, 1)]
CASES = list(itertools.product(TILES, ORDERS, [(1, 70, 37, 45), (3, 64, 96, 80)]))


def is_fast(case: tuple[str, tuple[int, int], tuple[int, ...]]) -> bool:
    """Each tile in one order, and the smallest in each of them."""
    tile, transposed, sizes = case
    number = list(TILES).index(tile)
    return sizes[0] == 1 and (number == len(TILES) - 1 or transposed == ORDERS[number % 4])


@pytest.mark.parametrize("case", fast_if(is_fast, CASES))
def test_matmul(
    in_matrices: list[Shader], case: tuple[str, tuple[int, int], tuple[int, ...]]
) -> None:
    """Rows, terms and columns that end within a matrix, and such that do not."""
    tile, transposed, (count, rows, depth, columns) = case
    a, b = noise(count, rows, depth), noise(count, depth, columns)
    stored = [x.swapaxes(1, 2).copy() if t else x for x, t in zip((a, b), transposed, strict=True)]
    gpu = of_tile(TILES[tile])
    found = product("vulkan", "matmul", transposed, stored, (count, rows, columns), gpu)
    assert_sums_are_single(found, halved(a) @ halved(b), depth)
    assert [each.subgroup for each in in_matrices] == [32]


@pytest.mark.parametrize("stride", [1, 2])
def test_convolutions(in_matrices: list[Shader], stride: int) -> None:
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
        found = product("vulkan", family, numbers, arrays, exact.shape, H200)
        assert_sums_are_single(found, exact, terms)
    assert len(in_matrices) >= len(cases)


@pytest.mark.parametrize("turned", [False, True])
def test_codes(in_matrices: list[Shader], turned: bool) -> None:
    """Words of codes become floats, and these are rounded."""
    matrix = drawn(NIBBLES, "uint8", (64, 96), (1, 32))
    a = noise(40, (64, 96)[turned])
    with tvm.target.Target("vulkan"):
        kernel = write_product(product_with(matrix, a, turned), H200, GPU_LOOPS)
    arrays, columns = [a, matrix.codes, matrix.zero, matrix.scale], (96, 64)[turned]
    found = run_kernel("vulkan", kernel.with_attr("global_symbol", "main"), arrays, (40, columns))
    values = matrix.values.T if turned else matrix.values
    assert_sums_are_single(found, halved(a) @ halved(values), a.shape[1])
    assert in_matrices


def test_what_the_code_asks_of_a_device(in_matrices: list[Shader]) -> None:
    """Vulkan's memory model, under which shared memory says that others reach it."""
    product("vulkan", "matmul", (0, 1), [noise(64, 32), noise(64, 32)], (64, 64), H200)
    (shader,) = in_matrices
    asked = {Capability.COOPERATIVE_MATRIX, Capability.VULKAN_MEMORY_MODEL}
    assert asked | {Capability.GROUP_NON_UNIFORM} <= capabilities(shader)
    assert extensions(shader) == {"SPV_KHR_cooperative_matrix", "SPV_KHR_vulkan_memory_model"}
    # Non-private; barriers acquire and release what is shared, and make it available and visible.
    assert {*shared_accesses(shader)} == {0x20}
    assert {*barriers(shader)} == {0x6108}
    # Slices, what an item holds of them meanwhile, and what it is handed.
    assert vectors_shared(shader) == 5


@pytest.mark.parametrize(
    ("transposed", "layouts"), [((0, 1), {0: 0, 1: 1}), ((1, 0), {0: 1, 1: 0})]
)
def test_which_matrix_is_which(
    in_matrices: list[Shader], transposed: tuple[int, int], layouts: dict[int, int]
) -> None:
    """Loops that stand in for matrices show neither uses nor layouts; strides count vectors."""
    tile = TILES["4x4-4"]
    product("vulkan", "matmul", transposed, [noise(64, 64)] * 2, (64, 64), of_tile(tile))
    types, loads = matrices(in_matrices[0])
    assert types == dict.fromkeys(range(3), (3, 16, 16))
    assert {use: layout for use, layout, _ in loads} == layouts
    height = tile.rows * H200.group // tile.share // 16
    along_sum = transposed == (0, 1)
    rows = (tile.terms, tile.terms) if along_sum else (height, tile.columns * 16)
    assert {use: stride for use, _, stride in loads} == {n: (rows[n] + 8) // 4 for n in (0, 1)}


def test_the_size_of_subgroups_goes_with_the_code(in_matrices: list[Shader]) -> None:
    product("vulkan", "matmul", (0, 1), [noise(64, 32), noise(64, 32)], (64, 64), H200)
    (shader,) = in_matrices
    flags, words = struct.unpack_from("<IQ", _code(shader))
    assert flags == 32 << 8
    assert words == len(shader.words)


def test_a_device_without_them_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiling, "_LEAST_OF_HALF", 4)
    net = SMALL["lenet"]
    mixed = odtc.compile(exported("lenet", tmp_path), TARGET, loss=net.loss, precision="mixed")
    with pytest.raises(DeviceError, match=r"needs .*, which llvmpipe .* lacks"):
        losses_of(mixed, net)


@pytest.mark.parametrize("name", fast_if("lenet".__eq__, FAMILIES))
def test_steps(
    name: str, tmp_path: Path, in_matrices: list[Shader], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss falls, and losses are within a hundredth of those in float32."""
    # Models are small here: so are their products.
    monkeypatch.setattr(tiling, "_LEAST_OF_HALF", 4)
    monkeypatch.setitem(GPUS, "nvidia-h200", of_tile(TILES["4x4-4"]))
    path, net = exported(name, tmp_path), SMALL[name]
    mixed, single = (
        odtc.compile(path, target, loss=net.loss, precision=precision)
        for target, precision in ((TARGET, "mixed"), ("host-cpu", "float32"))
    )
    assert in_matrices
    losses = losses_of(mixed, net, STEPS)
    assert losses == pytest.approx(losses_of(single, net, STEPS), rel=1e-2)
    assert losses[-1] < losses[0]


def planned(size: int, gpu: Gpu) -> tirx.PrimFunc:
    """A square product, as its storage is planned."""
    kernel = product_kernel("vulkan", "matmul", (0, 1), [(size, size)] * 2, (size, size), gpu)
    functions = plan_kernels(calling(kernel), parse_target(TARGET), None).planned.functions
    (kernel,) = (each for each in functions.values() if isinstance(each, tirx.PrimFunc))
    return kernel


@pytest.mark.parametrize("tile", TILES)
def test_a_tile_is_known_to_share_as_much_as_it_does(tile: str) -> None:
    """So that one which does not fit is not chosen; a tile and no splits: one launch shares."""
    gpu = of_tile(TILES[tile])
    extent = ProductExtent(1, 512, 512, 512)
    known = tiling.tiling_of(extent, gpu).local_bytes
    shared = max(needs_of(each).shared_bytes for each in launches_of(planned(512, gpu).body))
    assert 0.9 * known < shared <= known


def test_their_work_counts() -> None:
    """Matrices take 2 x 16 x 16 x 16 operations each."""
    size = 1024
    kernel = planned(size, H200)
    assert operations(kernel) == pytest.approx(2 * size**3, rel=0.05)


def test_a_budget_knows_that_matrices_are_faster() -> None:
    """Of the same operations: BERT-base's products take a third of the time."""
    of = [planned(4096, each) for each in (H200, replace(H200, multiplies_half=False))]
    for kernel, less in zip(of, (H200.rates.arithmetic * 2.3, H200.rates.arithmetic), strict=True):
        marked = kernel.with_attr(WORKLOAD, "matmul(a,b; 0,1)")
        assert gpu_time(marked, H200) == pytest.approx(2 * 4096**3 / less, rel=0.25)


@pytest.mark.parametrize(
    ("tile", "expected"), [((128, 128, 8), (2, 4, 4, 2)), ((16, 64, 2), (1, 2, 1, 2))]
)
def test_subgroups_share_a_tile_in_squares(
    tile: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    grid = grid_of(*tile)
    assert grid
    assert (grid.down, grid.across, grid.rows, grid.columns) == expected


def test_a_tile_without_whole_matrices_is_none() -> None:
    assert grid_of(24, 64, 2) is None
