"""Copies of images from channels second to channels last, and back, through vector registers."""

from collections.abc import Callable

from tvm import ir, relax, tirx

from odtc.backends.kernels.operand import shape_of
from odtc.backends.kernels.places import index
from odtc.backends.kernels.planes import plane_kernel
from odtc.backends.kernels.transpose import copy_transposed
from odtc.backends.kernels.vectors import Index
from odtc.core.kernel_marks import RELAYOUT
from odtc.core.layouts import LAST, permuted

# Rows of the copy that a task makes.
_ROWS = 64


def relayout_rules(
    lanes: int,
) -> dict[str, Callable[[relax.BlockBuilder, relax.Call], relax.Expr]]:
    """Legalisation rules for `relax.transform.LegalizeOps`, by operator."""

    def rule(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        shape, to = shape_of(call.args[0]), str(call.attrs["to"])
        kernel = relayout(shape, to, lanes, str(call.ty.dtype))
        name = builder.add_func(kernel, "relayout")
        return relax.call_tir(name, relax.Tuple([call.args[0]]), call.ty)

    return {RELAYOUT: rule}


def relayout(shape: list[int], to: str, lanes: int, dtype: str = "float32") -> tirx.PrimFunc:
    """A kernel `(x, y)` that copies a batch of images into another layout.

    Args:
        shape: of `x`.
        to: layout of `y`, NHWC or NCHW; `x` has the other one.
        lanes: elements of a vector.
        dtype: of both.
    """
    result = permuted(shape, to)
    batch, *rest = result
    # Each image is a matrix of channels by pixels, or the other way round.
    columns = rest[-1] if to == LAST else rest[-1] * rest[-2]
    rows = rest[0] * rest[1] if to == LAST else rest[0]
    parts = -(-rows // _ROWS)
    each = -(-rows // parts)

    def body(task: ir.Expr, x: tirx.Buffer, y: tirx.Buffer) -> None:
        n, part = task // parts, task % parts
        start = tirx.min(part * each, index(rows - each))
        copy_transposed(
            (columns, each),
            lambda j, i: tirx.BufferLoad(x, _flat(to != LAST, n, j, start + i)),
            y,
            lambda i, j: _flat(to == LAST, n, start + i, j),
            lanes,
        )

    return plane_kernel(batch * parts, {"x": (tuple(shape), dtype), "y": (result, dtype)}, body)


def _flat(is_last: bool, n: ir.Expr, row: Index, column: Index) -> list[Index]:
    """The index of an element of an image as a matrix, of which one side counts through axes."""
    return [n, index(0), row, column] if is_last else [n, row, index(0), column]
