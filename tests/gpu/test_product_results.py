"""Tails of products on GPUs: read in vectors ahead of what is computed, and stored in vectors."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
import tvm
from tvm import ir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.gpu.machine import LARGE, PHONE, Gpu
from odtc.backends.gpu.product_loops import GPU_LOOPS
from odtc.backends.kernels.product.fused import Product
from odtc.backends.spirv.assemble import Shader
from tests.gpu.accesses import Accesses, is_tensor
from tests.gpu.on_device import KINDS, run_kernel
from tests.gpu.one_product import noise
from tests.gpu.spirv.spirv_tools import check_valid, vectors_loaded, vectors_stored
from tests.gpu.test_gpu_products import assert_close

Read = Callable[..., ir.Expr]


def kernel_of(
    kind: str,
    case: tuple[str, Sequence[int]],
    shapes: Sequence[Sequence[int]],
    tail: Callable[[Sequence[tirx.Buffer], Sequence[ir.Expr], ir.Expr], ir.Expr],
    gpu: Gpu,
) -> tirx.PrimFunc:
    """A product of the first two tensors, whose tail reads the others; the last is the result."""
    family, numbers = case
    with tvm.target.Target(kind), IRBuilder() as builder:
        with T.prim_func(s_tir=True):
            T.func_name("main")
            T.func_attr({"tirx.noalias": True})
            *read, result = (
                T.arg(f"a{i}", T.buffer([int(size) for size in shape]))
                for i, shape in enumerate(shapes)
            )
            product = Product(
                list(numbers), read[:2], result, lambda at, value: tail(read[2:], at, value)
            )
            GPU_LOOPS[family](product, gpu)
        return builder.get()


def fused(
    kind: str,
    case: tuple[str, Sequence[int]],
    arrays: Sequence[np.ndarray],
    out: Sequence[int],
    tail: Callable[[Sequence[tirx.Buffer], Sequence[ir.Expr], ir.Expr], ir.Expr],
    splits: int | None = None,
) -> np.ndarray:
    """What such a kernel computes of arrays."""
    gpu, _ = (PHONE if splits else LARGE).telling({"splits": (splits,)} if splits else {})
    kernel = kernel_of(kind, case, [*(each.shape for each in arrays), out], tail, gpu)
    return run_kernel(kind, kernel, arrays, out)


def where(read: Sequence[tirx.Buffer], at: Sequence[ir.Expr], value: ir.Expr) -> ir.Expr:
    """`x <= 0 ? zero : y + value`, as the gradient of a ReLU with another branch has it."""
    x, y, zero = read
    return tirx.if_then_else(
        x[tuple(at)] <= tirx.const(0.0, "float32"), zero[()], y[tuple(at)] + value
    )


# Of whole vectors of four and of two, and of neither; tiles that are whole, and that are not.
SIZES = [
    *((64, 16, 128), (70, 20, 140), (37, 9, 78), (37, 9, 45), (5, 64, 4)),
    # Of few terms and of many, in some tiles that are whole and one that is not.
    *((37, 9, 1101), (9, 170, 1030)),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", SIZES)
def test_tails_of_matrices(kind: str, sizes: tuple[int, int, int], made: list[Shader]) -> None:
    """A number for each column, one for each row, another matrix, and the column itself."""
    rows, depth, columns = sizes
    arrays = [noise(rows, depth), noise(depth, columns), noise(columns), noise(rows, 1)]
    arrays += [noise(rows, columns), noise(columns, rows)]
    a, b, bias, scale, other, turned = arrays

    def tail(read: Sequence[tirx.Buffer], at: Sequence[ir.Expr], value: ir.Expr) -> ir.Expr:
        m, p = at
        bias, scale, other, turned = read
        summed = value * scale[m, 0] + bias[p] + other[m, p] * turned[p, m]
        return summed + tirx.Cast("float32", p)

    found = fused(kind, ("matmul", (0, 0)), arrays, (rows, columns), tail)
    expected = a @ b * scale + bias + other * turned.T + np.arange(columns, dtype=np.float32)
    assert_close(found, expected)
    for shader in made:
        check_valid(shader)


@pytest.mark.parametrize("gpu", [LARGE, PHONE], ids=["large", "phone"])
@pytest.mark.parametrize("sizes", SIZES)
def test_tails_read_nothing_outside(sizes: tuple[int, int, int], gpu: Gpu) -> None:
    """What is read ahead for rows and columns that are not stored is read inside, too."""
    rows, depth, columns = sizes
    shapes = [(rows, depth), (depth, columns), (rows, columns), (rows, columns), (), sizes[::2]]
    kernel = kernel_of("vulkan", ("matmul", (0, 0)), shapes, where, gpu)
    assert Accesses(kernel, is_tensor).outside() == []


@pytest.mark.parametrize("kind", KINDS)
# Planes of whole vectors whose lines are not, planes of half ones, and of none.
@pytest.mark.parametrize("plane", [(6, 6), (3, 6), (5, 5)])
@pytest.mark.parametrize("taps", [1, 3])
@pytest.mark.parametrize("splits", [None, 2])
def test_tails_of_convolutions(
    kind: str, plane: tuple[int, int], taps: int, splits: int | None
) -> None:
    image, weight = noise(3, 16, *plane), noise(20, 16, taps, taps)
    out = (3, 20, *plane)
    arrays = [image, weight, noise(*out), noise(*out) + 1, np.float32(-2.0).reshape(())]
    numbers = [n for size in plane for n in (size, taps, 1, 1, taps // 2, size)]
    found = fused(kind, ("convolution", numbers), arrays, out, where, splits)
    y = F.conv2d(torch.tensor(image), torch.tensor(weight), padding=taps // 2).numpy()
    assert_close(found, np.where(arrays[2] <= 0, np.float32(-2.0), arrays[3] + y))


def test_results_and_what_tails_read_are_vectors(made: list[Shader]) -> None:
    """A tail that reads two tensors in the place of its result: one store, and two loads more."""
    sizes = (64, 16, 128)
    rows, depth, columns = sizes
    arrays = [noise(rows, depth), noise(depth, columns)]
    fused("vulkan", ("matmul", (0, 0)), arrays, (rows, columns), lambda _, __, value: value)
    arrays += [noise(rows, columns), noise(rows, columns), noise(1).reshape(())]
    fused("vulkan", ("matmul", (0, 0)), arrays, (rows, columns), where)
    without, with_tail = made
    assert vectors_stored(without) == vectors_stored(with_tail) == 1
    assert vectors_loaded(with_tail) == vectors_loaded(without) + 2


@pytest.mark.parametrize(
    ("depth", "columns", "apart"), [(16, 96801, 1), (16, 96802, 2), (16, 96804, 4), (170, 96801, 4)]
)
def test_items_store_neighbours_where_a_product_has_few_terms(
    depth: int, columns: int, apart: int
) -> None:
    shapes = [(64, depth), (depth, columns), (64, columns)]
    kernel = kernel_of("vulkan", ("matmul", (0, 0)), shapes, lambda _, __, value: value, LARGE)
    stored = Accesses(kernel, lambda buffer: is_tensor(buffer) and buffer.shape[1] == columns)
    assert stored.step_of_items() == apart
