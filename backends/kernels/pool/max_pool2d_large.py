"""2-D max pooling in training with windows of many elements, such as that of a whole image.

Each window is walked over once, element by element. What is chosen is as in `max_pool2d.py`.
"""

# TVMScript writes shapes where Python has types.
# pyright: reportInvalidTypeForm=false, reportMissingModuleSource=false

import math
from functools import partial

from tvm import ir, tirx
from tvm.script import tirx as T  # noqa: N812

from odtc.backends.kernels.common import parsed
from odtc.backends.kernels.pool.planes import Pair, Window
from odtc.core.ir.kernel_marks import IS_SCHEDULED, OPAQUE, PATTERN
from odtc.dialect.images.max_pool import chosen_dtype


def large_max_pool2d(sizes: Pair, window: Window, *, rectifies: bool = False) -> tirx.PrimFunc:
    """A kernel `(x, y, chosen)`: of each window the largest element, and its number.

    Args:
        sizes: samples and channels.
        window: how the window walks over a plane of `x`.
        rectifies: whether zero is the least result.
    """
    (samples, channels), (height, width), (rows, columns) = sizes, window.image, window.out
    count, taps = samples * channels, math.prod(window.kernel)
    dtype, kernel_columns = chosen_dtype(taps), window.kernel[1]
    lowest = 0.0 if rectifies else -math.inf

    start, end, place = (partial(each, window) for each in (_start, _end, _place))

    def is_first(number: ir.Expr) -> ir.Expr:
        return tirx.const(False) if rectifies else tirx.EQ(number, taps)

    @parsed.prim_func(private=True, s_tir=True)
    def pool(
        x: T.Buffer((samples, channels, height, width), "float32"),
        y: T.Buffer((samples, channels, rows, columns), "float32"),
        chosen: T.Buffer((samples, channels, rows, columns), dtype),
    ):
        for window_number in T.parallel(count * rows * columns):
            with T.sblock("window"):
                v = T.axis.spatial(count * rows * columns, window_number)
                T.reads(x[0:samples, 0:channels, 0:height, 0:width])
                T.writes(
                    y[0:samples, 0:channels, 0:rows, 0:columns],
                    chosen[0:samples, 0:channels, 0:rows, 0:columns],
                )
                largest = T.sblock_alloc_buffer((1,), "float32")
                number = T.sblock_alloc_buffer((1,), "int32")
                p: T.let = v // (rows * columns)
                i: T.let = v // columns % rows
                j: T.let = v % columns
                largest[0] = T.float32(lowest)
                number[0] = taps
                for a in range(start(0, i), end(0, i)):
                    for b in range(start(1, j), end(1, j)):
                        value: T.let = x[
                            p // channels, p % channels, place(0, i, a), place(1, j, b)
                        ]
                        if value > largest[0] or is_first(number[0]) or T.isnan(value):
                            largest[0] = value
                            number[0] = a * kernel_columns + b
                y[p // channels, p % channels, i, j] = largest[0]
                chosen[p // channels, p % channels, i, j] = T.Cast(dtype, number[0])

    return _finished(pool)


def large_max_pool2d_gradient(sizes: Pair, window: Window) -> tirx.PrimFunc:
    """A kernel `(dy, chosen, dx)`.

    Args:
        sizes: samples and channels.
        window: how the window walks over a plane of `dx`.
    """
    (samples, channels), (height, width), (rows, columns) = sizes, window.image, window.out
    count, taps = samples * channels, math.prod(window.kernel)
    dtype, kernel_columns = chosen_dtype(taps), window.kernel[1]
    (down, right), (row_gap, column_gap), (above, left) = window.stride, window.dilation, window.pad

    @parsed.prim_func(private=True, s_tir=True)
    def gradient(
        dy: T.Buffer((samples, channels, rows, columns), "float32"),
        chosen: T.Buffer((samples, channels, rows, columns), dtype),
        dx: T.Buffer((samples, channels, height, width), "float32"),
    ):
        for plane in T.parallel(count):
            with T.sblock("plane"):
                p = T.axis.spatial(count, plane)
                T.reads(
                    dy[0:samples, 0:channels, 0:rows, 0:columns],
                    chosen[0:samples, 0:channels, 0:rows, 0:columns],
                )
                T.writes(dx[0:samples, 0:channels, 0:height, 0:width])
                at = T.sblock_alloc_buffer((2,), "int32")
                for h, w in T.grid(height, width):
                    dx[p // channels, p % channels, h, w] = T.float32(0)
                for i, j in T.grid(rows, columns):
                    number: T.let = T.Cast("int32", chosen[p // channels, p % channels, i, j])
                    at[0] = i * down - above + number // kernel_columns * row_gap
                    at[1] = j * right - left + number % kernel_columns * column_gap
                    if number < taps:
                        dx[p // channels, p % channels, at[0], at[1]] = (
                            dx[p // channels, p % channels, at[0], at[1]]
                            + dy[p // channels, p % channels, i, j]
                        )

    return _finished(gradient)


def _start(window: Window, axis: int, step: ir.Expr) -> ir.Expr:
    """The first of a window's elements that is no padding in front."""
    gap = window.dilation[axis]
    return (tirx.max(window.pad[axis] - step * window.stride[axis], 0) + gap - 1) // gap


def _end(window: Window, axis: int, step: ir.Expr) -> ir.Expr:
    """How many of a window's elements are in front of the image's end."""
    gap = window.dilation[axis]
    room = window.image[axis] + window.pad[axis] - step * window.stride[axis]
    return tirx.min((room + gap - 1) // gap, window.kernel[axis])


def _place(window: Window, axis: int, step: ir.Expr, element: ir.Expr) -> ir.Expr:
    """Row or column of the image in which an element of a window is."""
    return step * window.stride[axis] - window.pad[axis] + element * window.dilation[axis]


def _finished(kernel: tirx.PrimFunc) -> tirx.PrimFunc:
    return kernel.with_attr({PATTERN: OPAQUE, IS_SCHEDULED: True, "tirx.noalias": True})
