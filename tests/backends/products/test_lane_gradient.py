"""Gradients of weights whose sums lanes share: values, machine code, and tasks for all cores."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tvm
import tvm_ffi
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.family.cpu import CPU_LOOPS
from odtc.backends.kernels.common.places import load
from odtc.backends.kernels.convolution.lane_gradient import is_worth_lanes, lane_gradient
from odtc.backends.kernels.convolution.shifted_cut import Shape
from odtc.backends.kernels.product.fused import FusedProduct
from odtc.backends.kernels.product.tile import Machine, machine_of
from odtc.backends.objects.library import export_library
from odtc.backends.targets import parse_target
from odtc.backends.write_products import write_product
from tests.backends.kernels.machine_code import count, innermost_loops
from tests.backends.products.guarded import run_guarded
from tests.backends.products.test_neon_kernels import check_busy
from tests.fast import examples

FLOATS = ("float32", "float32")
MACHINES = {bits: machine_of(bits) for bits in (128, 256, 512)}


@st.composite
def products(draw) -> tuple[Shape, int]:
    """Sizes, and positions: of several blocks, of a part of one, and of no whole vectors."""
    small, channels = st.integers(1, 5), st.integers(1, 23)
    positions = st.one_of(st.integers(16, 70), st.integers(700, 1100))
    return Shape(draw(small), draw(channels), draw(channels)), draw(positions)


def kernel_of(
    shape: Shape, positions: int, machine: Machine, dtypes: tuple[str, str] = FLOATS
) -> tirx.PrimFunc:
    """`(x, dy, dw)` with positions along one axis."""
    with IRBuilder() as builder:
        with T.prim_func(is_private=True, s_tir=True):
            T.func_attr({"tirx.noalias": True})
            x, dy, dw = (
                T.arg(name, T.buffer(sizes, dtype))
                for name, sizes, dtype in (
                    ("x", (shape.batch, shape.channels, positions), dtypes[0]),
                    ("dy", (shape.batch, shape.rows, positions), dtypes[1]),
                    ("dw", (shape.rows, shape.channels, 1), "float32"),
                )
            )
            lane_gradient(
                shape,
                positions,
                lambda n, c, p: load(x, [n, c, p]),
                lambda n, m, p: load(dy, [n, m, p]),
                dw,
                machine,
                is_direct=dtypes == FLOATS,
            )
        return builder.get()


@pytest.mark.parametrize("bits", MACHINES)
@settings(max_examples=examples(8), deadline=None)
@given(
    case=products(),
    dtypes=st.tuples(*[st.sampled_from(["float32", "float16"])] * 2),
    swapped=st.sampled_from([None, 0, 1]),
)
# Images that share a block, each with a vector that reaches back; the last part of an image has
# less than others; tiles with rests on both sides; the smallest image that there may be.
@example(case=(Shape(4, 3, 5), 49), dtypes=FLOATS, swapped=None)
@example(case=(Shape(2, 7, 23), 1031), dtypes=FLOATS, swapped=1)
@example(case=(Shape(3, 17, 19), 121), dtypes=("float16", "float32"), swapped=None)
@example(case=(Shape(1, 1, 1), 16), dtypes=FLOATS, swapped=0)
def test_against_float64(
    bits: int, case: tuple[Shape, int], dtypes: tuple[str, str], swapped: int | None
) -> None:
    shape, positions = case
    told, _ = MACHINES[bits].telling({} if swapped is None else {"swapped": (swapped,)})
    rng = np.random.default_rng(0)
    x, dy = (
        rng.standard_normal((shape.batch, channels, positions)).astype(dtype)
        for channels, dtype in zip((shape.channels, shape.rows), dtypes, strict=True)
    )
    (found,) = run_guarded(kernel_of(shape, positions, told, dtypes), [x, dy])
    wanted = np.einsum("ncp,nmp->mc", x.astype(np.float64), dy.astype(np.float64))
    scale = np.sqrt(shape.batch * positions)
    np.testing.assert_allclose(found[..., 0], wanted, rtol=1e-5, atol=2e-6 * scale)


@pytest.mark.parametrize("bits", MACHINES)
def test_every_tile_and_block_computes_the_same(bits: int) -> None:
    """One decision after the other, on an image of no whole vectors."""
    shape, positions = Shape(4, 6, 13), 333
    rng = np.random.default_rng(0)
    x, dy = (rng.standard_normal((4, each, positions), np.float32) for each in (6, 13))
    wanted = np.einsum("ncp,nmp->mc", x.astype(np.float64), dy.astype(np.float64))
    _, decisions = told = MACHINES[bits].telling({})
    kernel_of(shape, positions, told[0])
    choices = [
        {name: value}
        for name, decision in decisions.made.items()
        for value in decision.candidates[1::3]
    ]
    assert {"tile", "block", "shares", "swapped"} <= {name for each in choices for name in each}
    for choice in choices:
        machine, decisions = MACHINES[bits].telling(choice)
        (found,) = run_guarded(kernel_of(shape, positions, machine), [x, dy])
        assert not decisions.unknown
        np.testing.assert_allclose(found[..., 0], wanted, rtol=1e-4, atol=1e-4)


# Of MobileNetV2 and SqueezeNet: blocks of narrow vectors have more of them.
@pytest.mark.parametrize(
    ("channels", "rows", "side", "widths"),
    [
        (16, 96, 112, {128, 256, 512}),
        (24, 144, 56, {128, 256, 512}),
        (128, 16, 55, {128, 256, 512}),
        (32, 192, 28, {128}),
        (64, 384, 14, set()),
        (160, 960, 7, set()),
    ],
)
def test_which_products_have_this_form(channels, rows, side, widths) -> None:
    shape = Shape(8, channels, rows)
    assert widths == {
        bits for bits, machine in MACHINES.items() if is_worth_lanes(shape, side * side, machine)
    }


def loops_of(kernel: tirx.PrimFunc, target: str, folder: Path, name: str) -> Iterator[tuple]:
    """The innermost loops of a kernel with multiply-adds."""
    resolved = parse_target(target).resolved()
    module = tvm.IRModule({"main": kernel.with_attr("global_symbol", "main")})
    library = folder / "kernel.so"
    export_library(tvm.compile(module, resolved.to_tvm()), library, resolved)
    return (loop for loop in innermost_loops(library) if count(loop, name) >= 8)


# Of whole vectors, and of none; tiles with a rest of either operand.
SHAPES = [(Shape(8, 16, 96), 784), (Shape(2, 16, 64), 3025), (Shape(8, 7, 23), 1031)]


@pytest.mark.parametrize(("shape", "positions"), SHAPES)
@pytest.mark.parametrize(("cpu", "bits"), [("skylake-avx512", 512), ("haswell", 256)])
def test_sums_stay_in_registers(shape, positions, cpu, bits, tmp_path: Path) -> None:
    kernel = kernel_of(shape, positions, MACHINES[bits])
    loops = list(loops_of(kernel, f"host-cpu{{mcpu={cpu}}}", tmp_path, "vfmadd231ps"))
    # What is left of an image is a loop of its own, which runs once.
    most = max(count(loop, "vfmadd231ps") for loop in loops)
    for loop in loops:
        if count(loop, "vfmadd231ps") == most:
            assert not [item for item in loop if item.is_spill]


@pytest.mark.parametrize(("shape", "positions"), SHAPES[:2])
def test_it_keeps_the_multiply_adders_of_a_cortex_a76_busy(shape, positions, tmp_path: Path):
    kernel = kernel_of(shape, positions, MACHINES[128])
    loops = list(loops_of(kernel, "android-cpu{mcpu=cortex-a76}", tmp_path, "fmla"))
    assert loops
    for loop in loops:
        check_busy(f"lanes of {shape}", loop)


def weight_product(shape: Shape, side: int, kernel: int, stride: int) -> FusedProduct:
    """The gradient of a convolution's weights, padded so that images keep their size."""
    image = side * stride
    axis = [image, kernel, stride, 1, kernel // 2, side]
    sizes = [
        (shape.batch, shape.channels, image, image),
        (shape.batch, shape.rows, side, side),
        (shape.rows, shape.channels, kernel, kernel),
    ]
    parameters = [tirx.decl_buffer(each, "float32", f"p{at}") for at, each in enumerate(sizes)]
    return FusedProduct(
        "weight-gradient", axis * 2, parameters, [0, 1], None, lambda _: lambda at, value: value
    )


# Few results: of MobileNetV2's and SqueezeNet's first convolutions and those on large images.
@pytest.mark.parametrize(
    ("shape", "side", "kernel", "stride"),
    [
        (Shape(8, 16, 96), 112, 1, 1),
        (Shape(8, 32, 192), 28, 1, 1),
        (Shape(8, 16, 64), 55, 3, 1),
        (Shape(8, 3, 64), 111, 3, 2),
    ],
)
@pytest.mark.parametrize("bits", MACHINES)
def test_products_of_few_results_have_tasks_for_all_cores(shape, side, kernel, stride, bits):
    written = write_product(weight_product(shape, side, kernel, stride), MACHINES[bits], CPU_LOOPS)
    tasks: list[int] = []

    def note(node: tirx.For) -> None:
        if node.kind == tirx.ForKind.PARALLEL:
            tasks.append(int(node.extent))

    tvm_ffi.structural_walk(written.body, (tirx.For, note))
    assert tasks
    assert min(tasks) >= 8
