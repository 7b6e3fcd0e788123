"""2-D max pooling in training on a GPU, and its gradient: a work-item for each element.

The gradient is gathered: an element of the image asks the windows that cover it whether they chose
it, so that no two items add to the same sum. What they chose and their adjoints are read together,
of the nearest windows where there are fewer: behind a branch one read would wait for the other.
"""

# TVMScript has shapes where Python has types.
# pyright: reportInvalidTypeForm=false, reportMissingModuleSource=false

import math
from collections.abc import Callable

from tvm import ir, relax, tirx
from tvm.script import tirx as T  # noqa: N812

from odtc.backends.kernels.common import parsed
from odtc.backends.kernels.common.operand import call_kernel
from odtc.backends.kernels.pool.max_pool2d import pooling_of
from odtc.backends.kernels.pool.max_pool2d_large import large_max_pool2d
from odtc.backends.kernels.pool.planes import Pair, Window
from odtc.core.ir.kernel_marks import IS_SCHEDULED, OPAQUE, PATTERN
from odtc.dialect.images.max_pool import chosen_dtype, max_pool2d, max_pool2d_backward

# Windows over a place whose reads are written out.
_WRITTEN_OUT = 16
Rule = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]


def max_pool2d_rules() -> dict[str, Rule]:
    """Legalisation rules for `relax.transform.LegalizeOps`, by operator."""
    return {max_pool2d.name: _lower_forward, max_pool2d_backward.name: _lower_backward}


def max_pool2d_gradient(sizes: Pair, window: Window) -> tirx.PrimFunc:
    """A kernel `(dy, chosen, dx)`.

    Args:
        sizes: samples and channels.
        window: how the window walks over a plane of `dx`.
    """
    (samples, channels), (height, width), (rows, columns) = sizes, window.image, window.out
    count, (kernel_rows, kernel_columns) = samples * channels, window.kernel
    dtype, (row_gap, column_gap) = chosen_dtype(math.prod(window.kernel)), window.dilation

    def first(axis: int, at: ir.Expr) -> ir.Expr:
        """The first window that may cover a place."""
        reach = (window.kernel[axis] - 1) * window.dilation[axis]
        return tirx.max(-(-(at + window.pad[axis] - reach) // window.stride[axis]), 0)

    def end(axis: int, at: ir.Expr) -> ir.Expr:
        """The window after the last that may cover a place."""
        last = (at + window.pad[axis]) // window.stride[axis]
        return tirx.min(last + 1, window.out[axis])

    # Windows that may cover a place, at most.
    most = [
        (kernel - 1) * gap // stride + 1
        for kernel, gap, stride in zip(window.kernel, window.dilation, window.stride, strict=True)
    ]
    most_rows, most_columns = most
    loop = T.unroll if most_rows * most_columns <= _WRITTEN_OUT else T.serial

    def offset(axis: int, at: ir.Expr, step: ir.Expr) -> ir.Expr:
        """Offset of a place in a window."""
        return at + window.pad[axis] - step * window.stride[axis]

    @parsed.prim_func(private=True, s_tir=True)
    def gradient(
        dy: T.Buffer((samples, channels, rows, columns), "float32"),
        chosen: T.Buffer((samples, channels, rows, columns), dtype),
        dx: T.Buffer((samples, channels, height, width), "float32"),
    ):
        for element in T.parallel(count * height * width):
            with T.sblock("element"):
                v = T.axis.spatial(count * height * width, element)
                T.reads(
                    dy[0:samples, 0:channels, 0:rows, 0:columns],
                    chosen[0:samples, 0:channels, 0:rows, 0:columns],
                )
                T.writes(dx[0:samples, 0:channels, 0:height, 0:width])
                total = T.sblock_alloc_buffer((1,), "float32")
                p: T.let = v // (height * width)
                h: T.let = v // width % height
                w: T.let = v % width
                total[0] = T.float32(0)
                for more in loop(most_rows):
                    for across in loop(most_columns):
                        i: T.let = first(0, h) + more
                        j: T.let = first(1, w) + across
                        near: T.let = T.min(i, rows - 1)
                        beside: T.let = T.min(j, columns - 1)
                        a: T.let = offset(0, h, i)
                        b: T.let = offset(1, w, j)
                        picked: T.let = chosen[p // channels, p % channels, near, beside]
                        value: T.let = dy[p // channels, p % channels, near, beside]
                        total[0] = T.Select(
                            i < end(0, h)
                            and j < end(1, w)
                            and a % row_gap == 0
                            and b % column_gap == 0
                            and a // row_gap < kernel_rows
                            and T.Cast("int32", picked)
                            == a // row_gap * kernel_columns + b // column_gap,
                            total[0] + value,
                            total[0],
                        )
                dx[p // channels, p % channels, h, w] = total[0]

    return gradient.with_attr({PATTERN: OPAQUE, IS_SCHEDULED: True, "tirx.noalias": True})


def _lower_forward(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    (data,) = call.args
    sizes, window = pooling_of(call, data.ty.shape, call.ty.fields[0].shape)
    kernel = large_max_pool2d(sizes, window, rectifies=max_pool2d.read(call).rectifies)
    return call_kernel(builder, kernel, "max_pool2d", call, [data])


def _lower_backward(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    sizes, window = pooling_of(call, call.ty.shape, call.args[0].ty.shape)
    name = builder.add_func(max_pool2d_gradient(sizes, window), "max_pool2d_gradient")
    return relax.call_tir(name, relax.Tuple(list(call.args)), call.ty)
