"""Copies of images from channels second to channels last, and back, through vector registers."""

from collections.abc import Callable

from tvm import ir, relax, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.operand import shape_of
from odtc.backends.kernels.common.places import index
from odtc.backends.kernels.common.transpose import copy_transposed
from odtc.backends.kernels.common.vectors import Index, deinterleave, each_block, interleave, ramp
from odtc.backends.kernels.pool.planes import plane_kernel
from odtc.core.ir.layouts import LAST, permuted
from odtc.dialect.images import copies

# Rows of the copy that a task makes; tasks of an image of few channels; how many these are.
_ROWS, _BANDS, _FEW = 64, 8, 4


def relayout_rules(
    lanes: int,
) -> dict[str, Callable[[relax.BlockBuilder, relax.Call], relax.Expr]]:
    """Legalisation rules for `relax.transform.LegalizeOps`, by operator."""

    def rule(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        shape, to = shape_of(call.args[0]), copies.relayout.read(call).to
        kernel = relayout(shape, to, lanes, str(call.ty.dtype))
        name = builder.add_func(kernel, "relayout")
        return relax.call_tir(name, relax.Tuple([call.args[0]]), call.ty)

    return {copies.relayout.name: rule}


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
    channels = shape[1] if to == LAST else shape[-1]
    if channels <= _FEW and str(dtype) != "bool":
        return _of_few_channels(shape, to, lanes, dtype)
    # Each image is a matrix of channels by pixels, or the other way round. What is true or false is
    # no vector in memory.
    lanes = rest[0] * rest[1] * rest[2] + 1 if dtype == "bool" else lanes
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


def _of_few_channels(shape: list[int], to: str, lanes: int, dtype: str) -> tirx.PrimFunc:
    """The kernel for few channels: interleaves a vector of each into pixels, or the reverse."""
    result, is_last = permuted(shape, to), to == LAST
    batch, channels, rows, columns = shape if is_last else result
    pixels = rows * columns
    bands = max(each for each in range(1, _BANDS + 1) if pixels % each == 0)

    def body(task: ir.Expr, x: tirx.Buffer, y: tirx.Buffer) -> None:
        n, begin = task // bands, task % bands * (pixels // bands)

        def second(channel: int, at: Index, width: int) -> list[Index]:
            return [n, index(channel), index(0), ramp(at, width)]

        def move(start: Index, width: int) -> None:
            at = begin + start
            woven = [n, index(0), index(0), ramp(at * channels, width * channels)]
            if is_last:
                parts = [tirx.BufferLoad(x, second(c, at, width)) for c in range(channels)]
                T.buffer_store(y, interleave(parts, width), woven)
                return
            for c, part in enumerate(deinterleave(tirx.BufferLoad(x, woven), channels, width)):
                T.buffer_store(y, part, second(c, at, width))

        each_block(pixels // bands, lanes, move)

    return plane_kernel(batch * bands, {"x": (tuple(shape), dtype), "y": (result, dtype)}, body)


def _flat(is_last: bool, n: ir.Expr, row: Index, column: Index) -> list[Index]:
    """The index of an element of an image as a matrix, of which one side counts through axes."""
    return [n, index(0), row, column] if is_last else [n, row, index(0), column]
