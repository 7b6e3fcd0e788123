"""Products over tiles of a GPU, against PyTorch, on this machine's devices."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
import tvm
import tvm_ffi
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tvm import ir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T  # noqa: N812
from tvm.sym import Analyzer

from odtc.backends.gpu import product_loops
from odtc.backends.gpu.known import OF_HOSTS
from odtc.backends.gpu.machine import LARGE, PHONE, Gpu
from odtc.backends.gpu.multiply import ACROSS
from odtc.backends.gpu.product import emit_product
from odtc.backends.gpu.product_loops import GPU_LOOPS
from odtc.backends.gpu.product_results import Results
from odtc.backends.gpu.product_slices import ProductOperand, ProductTerm
from odtc.backends.gpu.tiling import ProductExtent, Tiling, apart, tiling_of, time_of
from odtc.backends.kernels.product.fused import Product
from odtc.backends.spirv.assemble import Shader
from tests.fast import examples, fast_if
from tests.gpu.on_device import KINDS
from tests.gpu.one_product import MACHINES, noise, product
from tests.gpu.spirv.spirv_tools import (
    barriers,
    check_valid,
    questions,
    shifted_in_loops,
    vectors_loaded,
    vectors_shared,
)


def assert_close(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("transposed", fast_if(sum, [(0, 0), (0, 1), (1, 0), (1, 1)]))
@pytest.mark.parametrize("sizes", [(1, 70, 33, 45), (3, 5, 1300, 9), (1, 1, 1, 1)])
def test_matrices(
    kind: str, machine: str, transposed: tuple[int, int], sizes: tuple[int, ...]
) -> None:
    count, rows, depth, columns = sizes
    a, b = noise(count, rows, depth), noise(count, depth, columns)
    stored = [x.swapaxes(1, 2).copy() if t else x for x, t in zip((a, b), transposed, strict=True)]
    out = (count, rows, columns)
    assert_close(product(kind, "matmul", transposed, stored, out, MACHINES[machine]), a @ b)


@pytest.mark.parametrize("kind", KINDS)
def test_parts_without_slices(kind: str) -> None:
    """Nine slices in eight parts of two: three parts have none, and one has half."""
    a, b = noise(1, 5, 72), noise(1, 72, 9)
    gpu, decisions = PHONE.telling({"splits": (8,)})
    assert_close(product(kind, "matmul", (0, 0), [a, b], (1, 5, 9), gpu), a @ b)
    assert decisions.made["splits"].taken == (8,)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("taps", [(7, 7), (2, 8)], ids=str)
def test_colours(kind: str, machine: str, taps: tuple[int, int]) -> None:
    """Rows of taps that are filled up to slices: what is beyond them is in no sum."""
    x, w = noise(2, 3, 13, taps[1] + 7), noise(9, 3, *taps)
    # The windows end in front of it.
    x[..., -1] = np.inf
    expected = F.conv2d(torch.tensor(x), torch.tensor(w), stride=2, padding=(3, 0)).numpy()
    rows, columns = expected.shape[2:]
    numbers = [13, taps[0], 2, 1, 3, rows, taps[1] + 7, taps[1], 2, 1, 0, columns]
    assert_close(
        product(kind, "convolution", numbers, [x, w], expected.shape, MACHINES[machine]), expected
    )


@pytest.mark.parametrize("kind", fast_if("vulkan".__eq__, KINDS))
@settings(max_examples=examples(8), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    # Of some channels whole slices and rows of items have one tap, of others none.
    st.tuples(st.integers(1, 3), st.integers(1, 9) | st.just(16), st.integers(1, 20)),
    st.tuples(st.integers(1, 3), st.integers(1, 2), st.integers(1, 2), st.integers(0, 2)),
    st.sampled_from(sorted(MACHINES)),
    st.sampled_from([{}, {"order": (0,)}, {"order": (1,)}]),
)
def test_convolutions(
    kind: str,
    sizes: tuple[int, int, int],
    window: tuple[int, int, int, int],
    machine: str,
    told: dict[str, tuple[int]],
) -> None:
    (batch, channels, rows), (kernel, stride, gap, pad) = sizes, window
    gpu, _ = MACHINES[machine].telling(told)
    x = torch.tensor(noise(batch, channels, 9, 8), requires_grad=True)
    w = torch.tensor(noise(rows, channels, kernel, kernel), requires_grad=True)
    y = F.conv2d(x, w, stride=stride, dilation=gap, padding=pad)
    dy = noise(*y.shape)
    y.backward(torch.tensor(dy))
    assert x.grad is not None
    assert w.grad is not None
    numbers = [n for i in (0, 1) for n in ((9, 8)[i], kernel, stride, gap, pad, y.shape[2 + i])]
    image, weight = x.detach().numpy(), w.detach().numpy()
    cases = {
        "convolution": ([image, weight], y.detach()),
        "data-gradient": ([dy, weight], x.grad),
        "weight-gradient": ([image, dy], w.grad),
    }
    for family, (arrays, expected) in cases.items():
        found = product(kind, family, numbers, arrays, tuple(expected.shape), gpu)
        assert_close(found, expected.numpy())


@given(st.integers(1, 64), st.integers(1, 4096), st.integers(1, 1 << 16), st.integers(1, 1 << 16))
def test_tiles_cover_the_product(batch: int, rows: int, depth: int, columns: int) -> None:
    extent = ProductExtent(batch, rows, depth, columns)
    for gpu in MACHINES.values():
        tiling = tiling_of(extent, gpu)
        assert tiling.tiles(extent) * tiling.height * tiling.width >= batch * rows * columns
        assert 1 <= tiling.splits <= depth
        assert tiling.splits == 1 or tiling.splits * batch * rows * columns * 4 <= gpu.split_bytes
        assert tiling.rows * tiling.columns <= gpu.accumulators


@given(st.integers(1, 4096), st.integers(1, 4096), st.sampled_from([2 << 10, 4 << 10, 8 << 10]))
def test_slices_fit_the_memory_of_a_group(rows: int, columns: int, local_bytes: int) -> None:
    tiling = tiling_of(ProductExtent(1, rows, 64, columns), Gpu(local_bytes=local_bytes))
    apart_by = 2 * apart(tiling.arithmetic.terms)
    assert 8 * (tiling.height + tiling.width + apart_by) * 4 <= local_bytes


def test_items_write_to_banks_of_their_own() -> None:
    """Where those side by side write terms side by side: 32 numbers wide, one from each bank."""
    for terms, width in ((8, 16), (8, 64), (8, 128), (4, 32)):
        pitch = width + apart(terms)
        banks = {(item % terms * pitch + item // terms) % 32 for item in range(32)}
        assert len(banks) == 32


def test_vectors_of_shared_memory_lie_at_multiples_of_their_size() -> None:
    for machine in MACHINES.values():
        tiling = tiling_of(ProductExtent(1, 512, 512, 512), machine)
        assert tiling.height % 4 == tiling.width % 4 == 0
    assert all(apart(terms) % 4 == 0 for terms in (4, 8, 16, 32))


@given(st.integers(1, 8), st.integers(1, 512), st.integers(1, 4096), st.integers(1, 512))
def test_no_tile_alone_is_faster_by_the_model(
    batch: int, rows: int, depth: int, columns: int
) -> None:
    """What is chosen takes no longer than any tile whose sums are in one part."""
    extent = ProductExtent(batch, rows, depth, columns)
    for gpu in (PHONE, *OF_HOSTS.values()):
        tiling = tiling_of(extent, gpu)
        speeds = {(t.rows, t.columns, gpu.group // t.share): t.speed for t in gpu.tiles}
        speed = speeds[tiling.rows, tiling.columns, tiling.down * ACROSS]
        time = time_of(tiling, extent, gpu, speed, tiling.splits)
        for each in gpu.tiles:
            other = Tiling(
                each.rows, each.columns, gpu.group // each.share // ACROSS, 1, tiling.arithmetic
            )
            assert time <= time_of(other, extent, gpu, each.speed, 1) * (1 + 8 / depth)


def test_tiles_leave_no_units_idle_in_a_last_turn() -> None:
    """Of 4,096 x 768 results 192 tiles of 128 x 128 would be one turn of 132 units and a half."""
    for depth, columns in ((3072, 768), (768, 768), (768, 3072)):
        extent = ProductExtent(1, 4096, depth, columns)
        tiling = tiling_of(extent, LARGE)
        groups = tiling.tiles(extent) * tiling.splits
        assert groups / (-(-groups // LARGE.units) * LARGE.units) > 0.9


def test_a_gradient_of_a_window_that_steps_takes_no_product_that_is_nothing() -> None:
    """The multiply-adds of its launches are those of the forward pass, but for edges of tiles."""
    extents: list[ProductExtent] = []

    def record(extent: ProductExtent, *_: object) -> None:
        extents.append(extent)

    numbers = [56, 3, 2, 1, 1, 28] * 2
    shapes = [(2, 32, 28, 28), (32, 16, 3, 3), (2, 16, 56, 56)]
    target = tvm.target.Target("opencl")
    with target, IRBuilder(), T.prim_func(s_tir=True), pytest.MonkeyPatch.context() as patch:
        T.func_name("main")
        buffers = [T.arg(f"a{i}", T.buffer(shape)) for i, shape in enumerate(shapes)]
        patch.setattr(product_loops, "emit_product", record)
        GPU_LOOPS["data-gradient"](
            Product(numbers, buffers[:-1], buffers[-1], lambda _, v: v), LARGE
        )
    assert sum(e.rows * e.depth * e.columns for e in extents) == 2 * 28 * 28 * 16 * 32 * 9
    # What is decided for the last one stands for all.
    assert extents[-1].depth == max(each.depth for each in extents)


@pytest.mark.parametrize("kind", KINDS)
def test_slices_of_one_tap(kind: str) -> None:
    """As many channels as fill slices and rows of items, of which the default makes use."""
    x = torch.tensor(noise(2, 16, 9, 8), requires_grad=True)
    w = torch.tensor(noise(24, 16, 3, 2), requires_grad=True)
    y = F.conv2d(x, w, stride=2, padding=1)
    dy = noise(*y.shape)
    y.backward(torch.tensor(dy))
    assert x.grad is not None
    assert w.grad is not None
    numbers = [9, 3, 2, 1, 1, y.shape[2], 8, 2, 2, 1, 1, y.shape[3]]
    image, weight = x.detach().numpy(), w.detach().numpy()
    for family, arrays, wanted in (
        ("convolution", [image, weight], y.detach()),
        ("data-gradient", [dy, weight], x.grad),
        ("weight-gradient", [image, dy], w.grad),
    ):
        gpu, decisions = PHONE.telling({})
        assert_close(
            product(kind, family, numbers, arrays, tuple(wanted.shape), gpu), wanted.numpy()
        )
        assert decisions.made["order"].taken == (1,)


@pytest.mark.parametrize("kind", KINDS)
def test_equal_runs_give_equal_bits(kind: str) -> None:
    """Sums that are cut are added up in one order."""
    x, dy = noise(4, 6, 20, 20), noise(4, 5, 20, 20)
    numbers = [20, 3, 1, 1, 1, 20] * 2
    runs = [
        product(kind, "weight-gradient", numbers, [x, dy], (5, 6, 3, 3), LARGE) for _ in range(3)
    ]
    for run in runs[1:]:
        np.testing.assert_array_equal(run, runs[0])


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_outside_of_an_image_is_zero_whatever_is_nearest(kind: str) -> None:
    """The nearest place inside is read there, and may be infinite."""
    image, weight = noise(1, 8, 9, 8), noise(16, 8, 3, 3)
    image[0, :, 0, 0] = np.inf
    expected = F.conv2d(torch.tensor(image), torch.tensor(weight), padding=1).numpy()
    numbers = [n for i in (0, 1) for n in ((9, 8)[i], 3, 1, 1, 1, (9, 8)[i])]
    found = product(kind, "convolution", numbers, [image, weight], expected.shape, LARGE)
    is_finite = np.isfinite(expected)
    assert (np.isfinite(found) == is_finite).all()
    assert_close(found[is_finite], expected[is_finite])


@pytest.mark.parametrize("family", ["convolution", "data-gradient", "weight-gradient"])
def test_no_branch_asks_where_a_window_is(family: str, made: list[Shader]) -> None:
    """What is asked in a kernel for padded windows is asked without padding as well."""
    branches = []
    for pad in (0, 1):
        # Planes of whole vectors, with padding and without.
        sizes, out = ((8, 8), (8 - 2 + 2 * pad, 8 - 2 + 2 * pad))
        numbers = [n for i in (0, 1) for n in (sizes[i], 3, 1, 1, pad, out[i])]
        image, weight, y = noise(1, 8, *sizes), noise(16, 8, 3, 3), noise(1, 16, *out)
        arrays, result = {
            "convolution": ([image, weight], y),
            "data-gradient": ([y, weight], image),
            "weight-gradient": ([image, y], weight),
        }[family]
        product("vulkan", family, numbers, arrays, result.shape, LARGE)
        branches.append(sum(questions(shader) for shader in made))
        made.clear()
    assert branches[0] >= branches[1]


# Sizes of which every row holds whole vectors, but no tile and no slice is whole.
_COUNT, _ROWS, _DEPTH, _COLUMNS = 2, 68, 36, 140


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("transposed", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("machine", MACHINES)
def test_matrices_of_whole_vectors(
    kind: str, machine: str, transposed: tuple[int, int], made: list[Shader]
) -> None:
    a, b = noise(_COUNT, _ROWS, _DEPTH), noise(_COUNT, _DEPTH, _COLUMNS)
    stored = [x.swapaxes(1, 2).copy() if t else x for x, t in zip((a, b), transposed, strict=True)]
    out = (_COUNT, _ROWS, _COLUMNS)
    assert_close(product(kind, "matmul", transposed, stored, out, MACHINES[machine]), a @ b)
    for shader in made:
        check_valid(shader)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("taps", [1, 3])
def test_convolutions_of_whole_vectors(kind: str, taps: int, made: list[Shader]) -> None:
    """Planes of 6 x 6, so that a vector goes over the end of a line."""
    x = torch.tensor(noise(2, 12, 6, 6), requires_grad=True)
    weight = torch.tensor(noise(20, 12, taps, taps), requires_grad=True)
    y = F.conv2d(x, weight, padding=taps // 2)
    dy = torch.tensor(noise(*y.shape))
    y.backward(dy)
    numbers = [6, taps, 1, 1, taps // 2, 6] * 2
    for family, operands, expected in (
        ("convolution", (x, weight), y),
        ("data-gradient", (dy, weight), x.grad),
        ("weight-gradient", (x, dy), weight.grad),
    ):
        arrays = [each.detach().numpy() for each in operands]
        wanted = expected.detach().numpy()
        assert_close(product(kind, family, numbers, arrays, wanted.shape, LARGE), wanted)
    for shader in made:
        check_valid(shader)


@pytest.mark.parametrize("depth", [36, 35])
def test_vectors_are_read_where_rows_are_of_whole_ones(depth: int, made: list[Shader]) -> None:
    """Both operands are; a row of 35 ends within a vector. What is shared is, in any case."""
    a, b = noise(1, _ROWS, depth), noise(1, _COLUMNS, depth)
    product("vulkan", "matmul", (0, 1), [a, b], (1, _ROWS, _COLUMNS), PHONE)
    assert sum(map(vectors_loaded, made)) == 1 + (0 if depth % 4 else 2 * 2)


def test_what_a_group_shares_is_read_in_vectors(made: list[Shader]) -> None:
    """Through Vulkan: two reads of each operand's tensor, and one of its slice."""
    a, b = noise(1, 2048, 16), noise(1, 1024, 16)
    found = product("vulkan", "matmul", (0, 1), [a, b], (1, 2048, 1024), PHONE)
    assert_close(found, a @ b.swapaxes(1, 2))
    for shader in made:
        check_valid(shader)
    assert sum(map(vectors_loaded, made)) == 2 * 2 + 2


@pytest.mark.parametrize("tile", [(8, 6, 8), (6, 8, 16)])
def test_six_results_of_an_item_are_read_in_vectors_of_two(
    tile: tuple[int, int, int], made: list[Shader]
) -> None:
    """What the group shares of either operand is an array of vectors through Vulkan."""
    gpu, decisions = OF_HOSTS["host-vulkan"].telling({"tile": tile})
    a, b = noise(1, 192, 64), noise(1, 64, 192)
    found = product("vulkan", "matmul", (0, 0), [a, b], (1, 192, 192), gpu)
    assert decisions.made["tile"].taken == tile
    assert_close(found, a @ b)
    (shader,) = made
    check_valid(shader)
    assert vectors_shared(shader) == 2


def test_places_of_vectors_lie_a_constant_apart(made: list[Shader]) -> None:
    """No place is a shift of what changes in a loop, so that a driver sees all but one as sums."""
    a, b = noise(1, 128, 64), noise(1, 192, 64)
    found = product("vulkan", "matmul", (0, 1), [a, b], (1, 128, 192), OF_HOSTS["host-vulkan"])
    assert_close(found, a @ b.swapaxes(1, 2))
    assert [shifted_in_loops(shader) for shader in made] == [0] * len(made)


def test_barriers_leave_reads_of_buffers_on_their_way(made: list[Shader]) -> None:
    """They order what is shared alone, as those of OpenCL: the next slice is being loaded."""
    a, b = noise(1, 64, 64), noise(1, 64, 64)
    product("vulkan", "matmul", (0, 1), [a, b], (1, 64, 64), PHONE)
    acquire_release, shared = 0x8, 0x100
    assert [barriers(shader) for shader in made] == [[acquire_release | shared] * 2]


def test_no_slice_is_read_that_is_not_there() -> None:
    """Through Vulkan, which does not branch: what is read last is not used, but has to be there."""
    numbers: list[ir.Expr] = []
    with tvm.target.Target("vulkan"), IRBuilder(), T.prim_func(s_tir=True):
        T.func_name("main")
        tensor = T.arg("a", T.buffer((64, 64)))

        def read(_: ir.Expr, at: ir.Expr, term: ProductTerm) -> ir.Expr:
            numbers.append(term.slice)
            return tensor[at, term.flat]

        result = T.arg("b", T.buffer((64, 64)))
        results = Results(result, lambda _, value: value, lambda _, m, p: [m, p], 1)
        operand, extent = ProductOperand(read, along_sum=True), ProductExtent(1, 64, 64, 64)
        emit_product(extent, operand, operand, results, PHONE)
    slices = 64 // tiling_of(extent, PHONE).arithmetic.terms
    last = tirx.const(slices - 1, "int32")
    largest = [tvm_ffi.structural_map(number, (ir.Var, lambda _: last)) for number in numbers]
    assert max(int(Analyzer().simplify(each)) for each in largest) == slices - 1
