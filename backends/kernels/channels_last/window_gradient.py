"""The gradient of a convolution's weights, of any window, of tensors whose channels are last.

`dw[m, c, t] = sum over n, o of dy[n, o, m] * x[n, o * stride + t * dilation - pad, c]`: a tile's
rows are channels of the image, its columns channels of `dy`. Both are copied as they are read, one
position after the other: `dy` in panels, of which a task has one, and for each tile its channels of
the image with zeros around it, which serve all taps; an image that one tap reads is not copied. The
long sum is cut into blocks that fit near a core; sums between blocks stay in memory.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.places import divisors, index, load, unflatten
from odtc.backends.kernels.common.transpose import copy_transposed
from odtc.backends.kernels.convolution.grid import ConvolutionAxis
from odtc.backends.kernels.product.columns import Columns
from odtc.backends.kernels.product.fused import Product
from odtc.backends.kernels.product.half_runs import add_into
from odtc.backends.kernels.product.panel import split_rows
from odtc.backends.kernels.product.panels import Panels, pack
from odtc.backends.kernels.product.tile import Machine, Tile, accumulator

# Dimensions of images; blocks that are worth a trial.
_IMAGE, _BLOCKS = 4, 8


@dataclass(frozen=True)
class _Block:
    """Positions that are summed up at a time.

    Attributes:
        images: how many, whole ones where there are several.
        rows: of the outputs of each.
    """

    images: int
    rows: int


def weight_gradient(product: Product, axes: Sequence[ConvolutionAxis], machine: Machine) -> None:
    """Emits the gradient."""
    (x, dy), dw, (down, across) = product.operands, product.result, axes
    batch, *_, channels = (int(size) for size in x.shape)
    filters, taps = int(dy.shape[3]), down.kernel * across.kernel
    tile, columns = machine.tile(channels, filters), Columns(1, filters)
    panels, live = -(-filters // tile.columns), min(filters, tile.columns)
    tiles, splits = split_rows(channels, tile.rows, panels, machine.tasks)
    is_copied = taps > 1 or any(axis.pad for axis in axes)
    block = _block(batch, axes, tile, machine)
    positions = block.images * block.rows * across.out
    stage = (block.images, _span(down, block.rows), _span(across, across.out), tile.rows)

    def first_of(t: ir.Expr, split: ir.Expr) -> ir.Expr:
        return T.Bind(tirx.min((split * tiles + t) * tile.rows, index(channels - tile.rows)))

    with T.parallel(panels * splits) as task:
        panel, split = unflatten(task, (panels, splits))
        right = T.sblock_alloc_buffer((1, positions, tile.columns), "float32")
        left = T.sblock_alloc_buffer(stage if is_copied else (1, 1, 1, 1), "float32")
        sums = T.sblock_alloc_buffer((tiles, tile.rows * taps, tile.columns), "float32")
        with T.grid(tiles, tile.rows * taps, tile.columns) as place:
            T.buffer_store(sums, tirx.const(0.0, "float32"), list(place))
        # The last panel and the last tile reach back over results that are there already.
        m = T.Bind(tirx.min(panel * tile.columns, index(max(filters - tile.columns, 0))))
        with T.grid(batch // block.images, down.out // block.rows) as (images, band):
            n = T.bind(images * block.images)
            start = T.bind((n * down.out + band * block.rows) * across.out)
            read = Panels(lambda _, k, p: _pixel(dy, start + k, p), True)
            pack(positions, tile, columns, read, (index(0), m), (right, index(0)))
            with T.serial(tiles) as t:
                top, c = T.bind(band * block.rows), first_of(t, split)
                source, at = x, [n, top * down.stride, index(0), c]
                if is_copied:
                    _fill(left, x, axes, (n, top), c)
                    source, at = left, [index(0)] * _IMAGE
                with T.grid(down.kernel, across.kernel) as tap:
                    _add((source, right, sums), tile, t, axes, block, tap, at)
        with T.serial(tiles) as t:
            c = first_of(t, split)
            copy_transposed(
                (tile.rows * taps, live),
                lambda k, j: tirx.BufferLoad(sums, [t, k, j]),
                dw,
                lambda j, k: [m + j, index(0), index(0), c * taps + k],
                machine.lanes,
            )


def _add(
    buffers: tuple[tirx.Buffer, tirx.Buffer, tirx.Buffer],
    tile: Tile,
    t: ir.Expr,
    axes: Sequence[ConvolutionAxis],
    block: _Block,
    tap: Sequence[ir.Expr],
    start: Sequence[ir.Expr],
) -> None:
    """Emits what a block adds to a tile of the sums, under one tap; its image begins at `start`."""
    (left, right, sums), (down, across), (i, j) = buffers, axes, tap
    taps = down.kernel * across.kernel

    def element(row: int, n: ir.Expr, r: ir.Expr, o: ir.Expr) -> ir.Expr:
        at = (r * down.stride + i * down.dilation, o * across.stride + j * across.dilation)
        return load(left, [a + b for a, b in zip(start, (n, *at, index(row)), strict=True)])

    def vector(v: int, n: ir.Expr, r: ir.Expr, o: ir.Expr) -> ir.Expr:
        at = (n * block.rows + r) * across.out + o
        return tirx.BufferLoad(right, [index(0), at, tile.span(v)])

    add_into(
        sums,
        accumulator(tile),
        tile,
        lambda row, v: [t, row * taps + i * across.kernel + j, tile.span(v)],
        [block.images, block.rows, across.out],
        element,
        vector,
    )


def _fill(
    left: tirx.Buffer,
    x: tirx.Buffer,
    axes: Sequence[ConvolutionAxis],
    start: tuple[ir.Expr, ir.Expr],
    channel: ir.Expr,
) -> None:
    """Emits the copy of some channels of a block's images, with zeros around them."""
    (down, across), (first, top) = axes, start
    images, height, width, count = (int(size) for size in left.shape)
    with T.grid(images, height, width) as (n, g, h):
        row, column = T.bind(top * down.stride + g - down.pad), T.bind(h - across.pad)
        bounds = [(row, down.size), (column, across.size)]
        inside = [test for at, size in bounds for test in (at >= 0, at < size)]
        with T.If(tirx.all(*inside)):
            with T.Then(), T.vectorized(count) as c:
                value = load(x, [first + n, row, column, channel + c])
                T.buffer_store(left, value, [n, g, h, c])
            with T.Else(), T.vectorized(count) as c:
                T.buffer_store(left, tirx.const(0.0, "float32"), [n, g, h, c])


def _pixel(tensor: tirx.Buffer, position: ir.Expr, channel: ir.Expr) -> ir.Expr:
    """An element of a dense tensor, whose positions are counted through all samples."""
    return load(tensor, [index(0), index(0), position, channel])


def _span(axis: ConvolutionAxis, out: int) -> int:
    """Positions of the image that so many outputs read."""
    return (out - 1) * axis.stride + (axis.kernel - 1) * axis.dilation + 1


def _block(batch: int, axes: Sequence[ConvolutionAxis], tile: Tile, machine: Machine) -> _Block:
    """Whole images, or rows that divide those of one, of which the copies have room near a core."""
    down, across = axes

    def bytes_of(images: int, rows: int) -> int:
        staged = _span(down, rows) * _span(across, across.out) * tile.rows
        return 4 * images * (staged + rows * across.out * tile.columns)

    cuts = [(1, rows) for rows in divisors(down.out)]
    cuts += [(images, down.out) for images in divisors(batch)[1:]]
    room = machine.near // 2
    usual = max((cut for cut in cuts if bytes_of(*cut) <= room), key=math.prod, default=cuts[0])
    cuts.sort(key=lambda cut: abs(math.log(math.prod(cut) / math.prod(usual))))
    return _Block(*machine.decide("block", cuts[:_BLOCKS], usual))
