"""Convolutions in groups on a GPU: strips of results for work-items, forward and of the image.

A group's channels are added up one after the other; most groups have one.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.gpu.grouped.strips import (
    Place,
    Strips,
    columns_backward,
    columns_forward,
    element,
    items,
    registers,
    sizes_of,
    strips_backward,
    strips_forward,
    strips_of,
    two_axes,
)
from odtc.backends.gpu.grouped.weights import weight_gradient
from odtc.backends.gpu.machine import Gpu
from odtc.backends.kernels.common.places import Readable, index, load, unflatten
from odtc.backends.kernels.product.fused import Product

# A column of a window: where it reads, and its tap.
Column = tuple[Place, ir.Expr]


def _forward(product: Product, gpu: Gpu) -> None:
    """`y[n, m, o] = sum over c, t of x[n, g + c, o * stride + t * dilation - pad] * w[m, c, t]`."""
    (x, w), (down, right) = product.operands, two_axes(product.numbers)
    outputs, channels, *_ = sizes_of(w)
    filters = outputs * channels // sizes_of(x)[1]
    planes = sizes_of(product.result)[:2]
    strips = strips_of(strips_forward, down, 1, math.prod(planes) * right.out, gpu)
    with items(math.prod([*planes, strips.count, right.out]), gpu) as number:
        n, m, strip, at = unflatten(number, [*planes, strips.count, right.out])
        columns = [(place, index(tap)) for tap, place in enumerate(columns_forward(right, at))]
        sums = registers(strips.rows)
        with _each(channels) as c:
            image = [n, m // filters * channels + c]
            _add_window(sums, (x, image), (w, [m, c]), (strips, strip, down.size), columns)
        _store(product, sums, strips, [n, m], (strip, at))


def _data_gradient(product: Product, gpu: Gpu) -> None:
    """`dx[n, c, i] = sum over m, t of dy[n, g + m, (i + pad - t * dilation) / stride] * w[...]`."""
    (dy, w), (down, right) = product.operands, two_axes(product.numbers)
    outputs, channels, *_ = sizes_of(w)
    planes = sizes_of(product.result)[:2]
    filters = outputs * channels // planes[1]
    across = math.prod(planes) * right.size
    strips = strips_of(strips_backward, down, down.stride, across, gpu)
    with items(math.prod([*planes, strips.count, right.size]), gpu) as number:
        n, c, strip, at = unflatten(number, [*planes, strips.count, right.size])
        columns = columns_backward(right, at)
        sums = registers(strips.rows)
        with _each(filters) as f:
            m = c // channels * filters + f
            weights = w, [m, c % channels]
            _add_window(sums, (dy, [n, m]), weights, (strips, strip, down.out), columns)
        _store(product, sums, strips, [n, c], (strip, at))


GROUPED_LOOPS: dict[str, Callable[[Product, Gpu], None]] = {
    "grouped-convolution": _forward,
    "grouped-data-gradient": _data_gradient,
    "grouped-weight-gradient": weight_gradient,
}


def _add_window(
    sums: tirx.Buffer,
    source: tuple[Readable, list[ir.Expr]],
    weights: tuple[Readable, list[ir.Expr]],
    rows: tuple[Strips, ir.Expr, int],
    columns: Sequence[Column],
) -> None:
    """Emits what one plane adds to the results of a strip.

    Args:
        sums: one for each row.
        source: a tensor, and the plane of it.
        weights: the tensor, and the window of it.
        rows: the strips, the number of this one, and how many rows the plane has.
        columns: of the window.
    """
    (tensor, plane), (w, window), (strips, strip, size) = source, weights, rows
    used = sorted({each.tap for taps in strips.taps.values() for each in taps})
    held = {tap: [T.bind(load(w, [*window, tap, by])) for _, by in columns] for tap in used}
    for first, taps in strips.taps.items():
        row = strips.row_of_input(strip, first, size)
        values = [element(tensor, plane, [row, place]) for place, _ in columns]
        for each in taps:
            total = sums[each.row]
            for value, by in zip(values, held[each.tap], strict=True):
                total = total + value * by
            T.buffer_store(sums, total, [each.row])


def _store(
    product: Product,
    sums: tirx.Buffer,
    strips: Strips,
    plane: Sequence[ir.Expr],
    at: tuple[ir.Expr, ir.Expr],
) -> None:
    """Emits the stores of a strip; what is fused with them is read before the first of them."""
    strip, column = at
    if strips.is_whole:
        places = [[*plane, strip * strips.rows + row, column] for row in range(strips.rows)]
        values = [T.bind(product.tail(at, sums[row])) for row, at in enumerate(places)]
        for place, value in zip(places, values, strict=True):
            T.buffer_store(product.result, value, place)
        return
    for row in range(strips.rows):
        line = strip * strips.rows + row
        with T.If(line < strips.length), T.Then():
            product.store([*plane, line, column], sums[row])


@contextmanager
def _each(count: int) -> Iterator[ir.Expr]:
    """A loop, unless it has one turn."""
    if count == 1:
        yield index(0)
    else:
        with T.serial(count) as number:
            yield number
