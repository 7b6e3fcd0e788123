"""The gradient of a convolution's data where most of what a window would read is padding.

`dx[n, c, i] = sum over taps of p[n, c, tap, i - tap]`, with `p = sum over m of w[m, c, tap] *
dy[n, m, o]`: a matrix product of dense positions, whose rows, one for each tap, are added to an
image where they belong. Staged with its zeros, as in `shifted_product.py`, a gradient of 10x10
positions under 5x5 taps takes twice the products.
"""

import itertools
import math
from collections.abc import Sequence

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.places import index, pieces, unflatten
from odtc.backends.kernels.common.vectors import Index, each_block, ramp, splat, widest
from odtc.backends.kernels.convolution.grid import ConvolutionAxis
from odtc.backends.kernels.convolution.shifted_cut import Shape
from odtc.backends.kernels.convolution.shifted_product import Store
from odtc.backends.kernels.convolution.staging import Read
from odtc.backends.kernels.product.tile import Machine, Tile, accumulator, keep, multiply

# Products with zeros for each that is needed, and terms of a sum, from which on adding to an image
# costs less. With fewer taps Winograd's form, or none, is better.
_WASTED, _TERMS, _TAPS = 0.5, 8, 16


def is_mostly_padding(axes: Sequence[ConvolutionAxis], shape: Shape, machine: Machine) -> bool:
    """Whether the gradient of a convolution's data is computed so; its sizes are those of `dy`."""
    outs, taps = [axis.out for axis in axes], math.prod(axis.kernel for axis in axes)
    if not machine.first_bytes or not all(map(_is_plain, axes)):
        return False
    if machine.dtype(shape.channels * taps, shape.batch * math.prod(outs)) != "float32":
        return False
    walked = math.prod(axis.backward()[0].staged.span for axis in axes[1:]) * axes[0].size
    is_dense = outs[-1] >= 2 * machine.lanes and shape.channels >= _TERMS
    return is_dense and taps >= _TAPS and walked >= (1 + _WASTED) * math.prod(outs)


def _is_plain(axis: ConvolutionAxis) -> bool:
    """Whether no position of the image lies beyond those that a window reads."""
    return axis.stride == 1 and axis.pad >= 0 and axis.pad + axis.size <= _span(axis)


def _span(axis: ConvolutionAxis) -> int:
    """Positions of the image that a window reads, with its padding."""
    return axis.out + (axis.kernel - 1) * axis.dilation


def scattered_gradient(
    shape: Shape,
    axes: Sequence[ConvolutionAxis],
    dy: Read,
    weight: Read,
    store: Store,
    machine: Machine,
) -> None:
    """Emits the gradient, an image's channel a task.

    Args:
        shape: sizes; its channels are those of `dy`, its rows those of the image.
        axes: of the convolution; see `is_mostly_padding`.
        dy: `(n, m, *at)` to an element, or a vector of neighbours along the last axis.
        weight: `(c, m, *taps)` to an element.
        store: takes an element of the image: `(n, c, at, value)`.
        machine: the CPU.
    """
    outs, kernel = [axis.out for axis in axes], [axis.kernel for axis in axes]
    taps, positions, lanes = math.prod(kernel), math.prod(outs), machine.lanes
    tile = machine.tile_of_sums(taps, positions)
    columns = -(-positions // tile.columns) * tile.columns
    # What a batch has of `dy` is read by each channel: side by side, with zeros behind.
    panels = T.sblock_alloc_buffer((shape.batch, shape.channels, columns), "float32")
    with T.parallel(index(shape.batch * shape.channels)) as task:
        n, m = unflatten(task, (shape.batch, shape.channels))
        for at in range(positions, columns):
            T.buffer_store(panels, tirx.const(0.0, "float32"), [n, m, index(at)])
        with T.grid(1, *outs[:-1]) as (_, *outer):
            begin = _flat(outer, outs)
            for x, width in _parts(outs[-1], lanes):
                value = dy(n, m, *outer, ramp(index(x), width))
                T.buffer_store(panels, value, [n, m, ramp(begin + x, width)])
    with T.parallel(index(shape.batch * shape.rows)) as task:
        n, c = unflatten(task, (shape.batch, shape.rows))
        image = T.sblock_alloc_buffer([_span(axis) for axis in axes], "float32")
        products = T.sblock_alloc_buffer((tile.rows, columns), "float32")
        _clear(image, lanes)
        for begin, count, rows in pieces(taps, tile.rows):
            piece = tile.of_rows(rows)
            with T.serial(count) as t:
                first = begin + t * rows

                def left(row: int, m: ir.Expr, first: ir.Expr = first) -> ir.Expr:
                    return weight(c, m, *unflatten(first + row, kernel))

                def right(v: int, m: ir.Expr, column: ir.Expr, piece: Tile = piece) -> ir.Expr:
                    return tirx.BufferLoad(panels, [n, m, piece.span(v, column)])

                registers = accumulator(piece)
                with T.serial(columns // tile.columns) as panel:
                    column = T.Bind(panel * tile.columns)
                    multiply(
                        registers,
                        piece,
                        [shape.channels],
                        left,
                        lambda v, m, column=column, right=right: right(v, m, column),
                    )
                    keep(registers, products, piece, column)
                with T.serial(rows) as row:
                    _add(products, row, image, unflatten(first + row, kernel), axes, lanes)
        _put(image, axes, lambda at, value: store(n, c, at, value), lanes)


def _add(
    products: tirx.Buffer,
    row: ir.Expr,
    image: tirx.Buffer,
    tap: Sequence[ir.Expr],
    axes: Sequence[ConvolutionAxis],
    lanes: int,
) -> None:
    """Emits what a tap adds to the image."""
    outs = [axis.out for axis in axes]
    moved = [T.Bind(t * axis.dilation) for t, axis in zip(tap, axes, strict=True)]
    with T.grid(1, *outs[:-1]) as (_, *outer):
        begin = _flat(outer, outs)
        above = [o + by for o, by in zip(outer, moved, strict=False)]
        for x, width in _parts(outs[-1], lanes):
            at = [*above, ramp(moved[-1] + x, width)]
            value = tirx.BufferLoad(products, [row, ramp(begin + x, width)])
            T.buffer_store(image, tirx.BufferLoad(image, at) + value, at)


def _put(image: tirx.Buffer, axes: Sequence[ConvolutionAxis], put: Read, lanes: int) -> None:
    """Emits the stores of an image without its padding."""
    with T.grid(1, *(axis.size for axis in axes[:-1])) as (_, *outer):
        above = [o + axis.pad for o, axis in zip(outer, axes, strict=False)]

        def vector(begin: Index, width: int) -> None:
            with T.vectorized(width) as lane:
                at = begin + lane
                put([*outer, at], tirx.BufferLoad(image, [*above, at + axes[-1].pad]))

        each_block(axes[-1].size, lanes, vector)


def _clear(buffer: tirx.Buffer, lanes: int) -> None:
    *outer, last = (int(size) for size in buffer.shape)
    with T.grid(1, *outer) as (_, *at):
        for x, width in _parts(last, lanes):
            zero = splat(tirx.const(0.0, "float32"), width)
            T.buffer_store(buffer, zero, [*at, ramp(index(x), width)])


def _parts(length: int, lanes: int) -> list[tuple[int, int]]:
    """Begin and width of the vectors that cover a row, each element in one of them."""
    found, begin = [], 0
    while begin < length:
        found.append((begin, widest(length - begin, lanes)))
        begin += found[-1][1]
    return found


def _flat(outer: Sequence[ir.Expr], outs: Sequence[int]) -> ir.Expr:
    """Position of a row's first element among all."""
    strides = itertools.accumulate(reversed(outs[1:]), lambda a, b: a * b)
    return sum((o * s for o, s in zip(reversed(outer), strides, strict=True)), index(0))
