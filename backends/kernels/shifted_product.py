"""A convolution, or the gradient of its data, as a matrix product over a staged image.

`y[n, m, o] = sum over c and taps of weight(m, c, tap) * x[n, c, o shifted by the tap]`: the tile of
`backends/kernels/tile.py` reads weights where they lie and the image from its staged copy; see
`backends/kernels/grid.py`. Where it multiplies float16, both are copies, rounded as they are made.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.grid import Staged, Walk
from odtc.backends.kernels.half_runs import multiply_into
from odtc.backends.kernels.panel_product import split_rows
from odtc.backends.kernels.places import index, rounded, size_of, unflatten
from odtc.backends.kernels.row_copy import copy_rows
from odtc.backends.kernels.staging import (
    Block,
    Read,
    phase_at,
    phases_of,
    reach_of,
    shift_of,
    stage_block,
    strides_of,
)
from odtc.backends.kernels.tile import Machine, Tile, accumulator

# Vectors of positions from which on a product does not want more images at once.
WIDE = 16

# `store(n, m, at, value)`, with the index of the spatial axes.
Store = Callable[[ir.Expr, ir.Expr, list[ir.Expr], ir.Expr], None]


@dataclass(frozen=True)
class Shape:
    """Sizes of a product.

    Attributes:
        batch: images.
        channels: of the image, summed over.
        rows: of the weights: channels of the result.
    """

    batch: int
    channels: int
    rows: int


def staged_product(
    shape: Shape,
    walks: Sequence[Sequence[Walk]],
    image: Read,
    weight: Read,
    store: Store,
    machine: Machine,
    *,
    scattered: bool = False,
) -> None:
    """Emits the product for one or more walks over the same staged image.

    Args:
        shape: sizes.
        walks: for each, its spatial axes; they share their staged axes.
        image: `(n, channel, *at)` to an element.
        weight: `(row, channel, *taps)` to an element.
        store: takes an element.
        machine: the CPU.
        scattered: whether a row's weights are far apart, so that a tile's are copied first.
    """
    axes = [walk.staged for walk in walks[0]]
    phases = [phases_of(set().union(*(w[d].phases for w in walks))) for d in range(len(axes))]
    strides = strides_of(axes)
    dtype = staged_dtype(shape, walks, machine)
    block = _block(shape, walks, axes, math.prod(map(len, phases)), machine, dtype)
    tile = machine.tile(shape.rows, block.positions, dtype)
    columns = -(-block.positions // tile.columns) * tile.columns
    reach = max(reach_of(walk, strides) for walk in walks)
    staged_rows = -(-(columns + reach) // block.inner)
    rows = max(walk[0].out for walk in walks)
    groups, bands = shape.batch // block.images, -(-rows // block.rows)
    tiles, splits = split_rows(shape.rows, tile.rows, groups * bands)
    # Walks that fill the same lines of the result, each in between the others.
    lines = [list(group) for _, group in itertools.groupby(walks, lambda walk: walk[:-1])]
    with T.parallel(groups * bands * splits) as task:
        group, band, split = unflatten(task, (groups, bands, splits))
        first = T.Bind(tirx.min(band * block.rows, rows - block.rows))
        stage = T.sblock_alloc_buffer(
            (*map(len, phases), shape.channels, staged_rows * block.inner), dtype
        )
        n = group * block.images
        stage_block(stage, image, axes, phases, (n, first), block)
        shares = max(map(len, lines))
        scratch = T.sblock_alloc_buffer((shares, tile.rows, columns), "float32")
        results = accumulator(tile)
        with T.serial(tiles) as t:
            m = T.Bind(tirx.min((split * tiles + t) * tile.rows, shape.rows - tile.rows))
            of_tile = _weights(tile, shape.channels, walks, weight, m, scattered=scattered)
            for line in lines:
                for share, walk in enumerate(line):
                    with T.serial(columns // tile.columns) as panel:
                        place = (index(share), panel * tile.columns)
                        _multiply((scratch, results), tile, walk, (stage, phases), of_tile, place)
                _write(scratch, tile, line, block, strides, store, (n, first, m))


def _weights(
    tile: Tile,
    channels: int,
    walks: Sequence[Sequence[Walk]],
    weight: Read,
    m: ir.Expr,
    *,
    scattered: bool,
) -> Read:
    """From a row of the tile, a channel and a place in the kernel to a weight.

    Emits a copy of the tile's weights if need be; weights that are multiplied in float16 are copied
    for their rounding.
    """
    kernel = [
        max((int(each.weight(tap)) for each in axis for tap in range(each.taps)), default=-1) + 1
        for axis in zip(*walks, strict=True)
    ]

    def stored(row: int | ir.Expr, c: ir.Expr, *at: ir.Expr) -> ir.Expr:
        return weight(m + row, c, *at)

    if 0 in kernel or not (scattered or tile.dtype == "float16"):
        return lambda row, c, *at: rounded(stored(row, c, *at), tile.dtype)
    return copy_rows(tile, [channels, *kernel], stored, side_by_side=scattered)


def _multiply(
    sums: tuple[tirx.Buffer, tirx.Buffer],
    tile: Tile,
    walk: Sequence[Walk],
    staged: tuple[tirx.Buffer, Sequence[Sequence[int]]],
    weight: Read,
    place: tuple[ir.Expr, ir.Expr],
) -> None:
    """Emits a tile's product.

    Args:
        sums: float32[walks, rows, columns] in memory, and the tile's registers.
        tile: its shape.
        walk: over the image.
        staged: the image, and the phases of each axis.
        weight: of `_weights`.
        place: the walk and the column where the tile's sums begin.
    """
    (scratch, results), (stage, phases), (_, column) = sums, staged, place
    strides = strides_of([each.staged for each in walk])

    def right(vector: int, c: ir.Expr, *taps: ir.Expr) -> ir.Expr:
        at = tile.span(vector, column + shift_of(walk, strides, taps))
        return tirx.BufferLoad(stage, [*phase_at(walk, phases, taps), c, at])

    def left(row: int, c: ir.Expr, *taps: ir.Expr) -> ir.Expr:
        return weight(row, c, *(w.weight(t) for w, t in zip(walk, taps, strict=True)))

    extents = [int(stage.shape[-2]), *(each.taps for each in walk)]
    multiply_into(scratch, results, tile, place, extents, left, right)


def staged_dtype(shape: Shape, walks: Sequence[Sequence[Walk]], machine: Machine) -> str:
    """What the product multiplies: the image is staged anyway, only weights are copied for it."""
    depth = shape.channels * max(math.prod(each.taps for each in walk) for walk in walks)
    return machine.dtype(depth, shape.batch * math.prod(each.out for each in walks[0]))


def _block(
    shape: Shape,
    walks: Sequence[Sequence[Walk]],
    axes: Sequence[Staged],
    phases: int,
    machine: Machine,
    dtype: str,
) -> Block:
    """As much as a core has room for near it: a band of rows of an image, or several images."""
    inner = math.prod(axis.span for axis in axes[1:])
    rows, staged = max(walk[0].out for walk in walks), axes[0].span
    row_bytes = size_of(dtype) * shape.channels * phases * inner
    room = max(machine.cache_bytes // row_bytes, 1)
    wide = WIDE * machine.lanes
    if len(walks) == 1 and staged > room and rows * inner > wide:
        # A band ends among other rows, not at an edge whose zeros it could share.
        between = walks[0][0].reach
        most = max(room - between, -(-wide // inner))
        band = -(-rows // -(-rows // most))
        return Block(1, band, band + between, inner)
    divisors = [n for n in range(1, shape.batch + 1) if shape.batch % n == 0]
    blocks = [Block(images, rows, staged, inner) for images in divisors]
    return next((block for block in blocks if block.positions >= wide), blocks[-1])


def _write(
    scratch: tirx.Buffer,
    tile: Tile,
    line: Sequence[Sequence[Walk]],
    block: Block,
    strides: Sequence[int],
    store: Store,
    start: tuple[ir.Expr, ir.Expr, ir.Expr],
) -> None:
    """Emits the copy of a tile's results to where they belong, line by line.

    Args:
        scratch: float32[walks, rows, columns].
        tile: the shape of its rows.
        line: walks that share the lines of the result.
        block: what is staged.
        strides: of the staged axes.
        store: takes an element.
        start: first image, first row of results and first row of the tile.
    """
    n, first, m = start
    walk = line[0]
    middle = [each.out for each in walk[1:-1]]
    rows = min(block.rows, walk[0].out)
    width, lanes = sum(each[-1].out for each in line), tile.lanes
    is_whole = len(line) == 1 and walk[-1].target(1) - walk[-1].target(0) == 1
    gathered = None if is_whole else T.sblock_alloc_buffer((width,), "float32")
    with T.grid(tile.rows, block.images, rows, *middle) as (i, of, row, *inner):
        base = (of * block.staged_rows + row) * block.inner + sum(
            (o * stride for o, stride in zip(inner, strides[1:-1], strict=True)), index(0)
        )
        at = [each.target(o) for each, o in zip(walk, [first + row, *inner], strict=False)]

        def value(o: ir.Expr, share: int = 0, base: ir.Expr = base) -> ir.Expr:
            return tirx.BufferLoad(scratch, [index(share), i, base + o])

        def put(o: ir.Expr) -> None:
            result = value(o) if gathered is None else tirx.BufferLoad(gathered, [o])
            store(n + of, m + i, [*at, o], result)

        if gathered is not None:
            for share, each in enumerate(line):
                with T.serial(each[-1].out) as o:
                    T.buffer_store(gathered, value(o, share), [each[-1].target(o)])
        if width < lanes:
            with T.serial(width) as o:
                put(o)
            return
        with T.serial(-(-width // lanes)) as part:
            # The last vector reaches back.
            begin = T.Bind(tirx.min(part * lanes, width - lanes))
            with T.vectorized(lanes) as lane:
                put(begin + lane)
