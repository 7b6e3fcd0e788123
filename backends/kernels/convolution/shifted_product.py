"""A convolution, or the gradient of its data, as a matrix product over a staged image.

`y[n, m, o] = sum over c and taps of weight(m, c, tap) * x[n, c, o shifted by the tap]`: the tile of
`backends/kernels/product/tile.py` reads weights where they lie and the image from its staged copy;
see `backends/kernels/convolution/grid.py`. Where it multiplies float16, both are copies, rounded as
they are made.
"""

import itertools
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.places import index, rounded, unflatten
from odtc.backends.kernels.common.vectors import each_block
from odtc.backends.kernels.convolution.grid import Walk
from odtc.backends.kernels.convolution.shifted_cut import Shape, ShiftedCut, cut_of
from odtc.backends.kernels.convolution.staging import (
    Read,
    phase_at,
    shift_of,
    stage_block,
    strides_of,
)
from odtc.backends.kernels.product.half_runs import add_into, multiply_into
from odtc.backends.kernels.product.row_copy import copy_rows
from odtc.backends.kernels.product.tile import Machine, accumulator

# `store(n, m, at, value)`, with the index of the spatial axes.
Store = Callable[[ir.Expr, ir.Expr, list[ir.Expr], ir.Expr], None]


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
    (scattered,) = map(bool, machine.decide("copy", [(0,), (1,)], (int(scattered),)))
    cut = cut_of(shape, walks, machine)
    tile, channels = cut.tile, cut.channels
    of_part = (*map(len, cut.phases), channels, cut.staged)
    shared = None
    if cut.is_shared:
        shared = T.sblock_alloc_buffer((cut.blocks, cut.parts, *of_part), tile.dtype)
        with T.parallel(cut.blocks * cut.parts) as task:
            which, part = unflatten(task, (cut.blocks, cut.parts))
            _stage(shared, [which, part], image, walks, cut, (which, part * channels))
    # Walks that fill the same lines of the result, each in between the others.
    lines = [list(group) for _, group in itertools.groupby(walks, lambda walk: walk[:-1])]
    # The sums of a round are added to those of the rounds before it.
    kept = (cut.tiles, len(walks)) if cut.rounds > 1 else (1, max(map(len, lines)))
    with T.parallel(cut.blocks * cut.splits) as task:
        which, split = unflatten(task, (cut.blocks, cut.splits))
        stage = T.sblock_alloc_buffer(of_part, tile.dtype) if shared is None else shared
        sums = T.sblock_alloc_buffer((*kept, tile.rows, cut.columns), "float32")
        results = accumulator(tile)
        if cut.rounds > 1:
            with T.grid(*(int(size) for size in sums.shape)) as at:
                T.buffer_store(sums, tirx.const(0.0, "float32"), list(at))
        with T.serial(cut.rounds) as turn:
            if shared is None:
                _stage(stage, [], image, walks, cut, (which, turn * channels))
            staged = _Staged(stage, which, turn * (cut.parts // cut.rounds), shared is not None)
            with T.serial(cut.tiles) as t:
                m = (split * cut.tiles + t) * tile.rows
                m = T.Bind(tirx.min(m, shape.rows - tile.rows))
                start = (m, staged.first * channels)
                rows = _weights(cut, walks, weight, start, scattered=scattered)
                for line in lines:
                    first = walks.index(line[0]) if cut.rounds > 1 else 0
                    of_line = [t if cut.rounds > 1 else index(0), index(first)]
                    for share, walk in enumerate(line):
                        with T.serial(cut.columns // tile.columns) as panel:
                            at = [of_line[0], index(first + share), panel * tile.columns]
                            _multiply(cut, walk, staged, rows, (sums, results), at)
                    with ExitStack() as last:
                        if cut.rounds > 1:
                            last.enter_context(T.If(turn == cut.rounds - 1))
                            last.enter_context(T.Then())
                        _write(sums, of_line, line, cut, store, (*_start(cut, which), m))


@dataclass(frozen=True)
class _Staged:
    """The copies that a round reads.

    Attributes:
        buffer: [phases of each axis, channels, positions], after blocks and parts where shared.
        block: which one it is.
        first: part.
        shared: whether the copies of all blocks are there.
    """

    buffer: tirx.Buffer
    block: ir.Expr
    first: ir.Expr
    shared: bool

    def vector(self, part: ir.Expr, at: list[ir.Expr]) -> ir.Expr:
        """Elements of one of the round's parts."""
        outer = [self.block, self.first + part] if self.shared else []
        return tirx.BufferLoad(self.buffer, [*outer, *at])


def _start(cut: ShiftedCut, which: ir.Expr) -> tuple[ir.Expr, ir.Expr]:
    """First image of a block, and first row of its results."""
    group, band = unflatten(which, (cut.groups, cut.bands))
    first = T.Bind(tirx.min(band * cut.block.rows, cut.rows - cut.block.rows))
    return group * cut.block.images, first


def _stage(
    stage: tirx.Buffer,
    outer: Sequence[ir.Expr],
    image: Read,
    walks: Sequence[Sequence[Walk]],
    cut: ShiftedCut,
    place: tuple[ir.Expr, ir.Expr],
) -> None:
    """Emits the copy of a part of a block, from its first channel on."""
    which, first = place
    stage_block(
        stage,
        lambda n, c, *at: image(n, first + c, *at),
        [each.staged for each in walks[0]],
        cut.phases,
        _start(cut, which),
        cut.block,
        outer,
    )


def _weights(
    cut: ShiftedCut,
    walks: Sequence[Sequence[Walk]],
    weight: Read,
    start: tuple[ir.Expr, ir.Expr],
    *,
    scattered: bool,
) -> Read:
    """Returns a load of weights by the tile's row, the round's channel and the place in the kernel.

    Emits a copy of the tile's weights if need be; weights that are multiplied in float16 are copied
    for their rounding.
    """
    tile, (m, first) = cut.tile, start
    kernel = [
        max((int(each.weight(tap)) for each in axis for tap in range(each.taps)), default=-1) + 1
        for axis in zip(*walks, strict=True)
    ]

    def stored(row: int | ir.Expr, c: ir.Expr, *at: ir.Expr) -> ir.Expr:
        return weight(m + row, first + c, *at)

    if 0 in kernel or not (scattered or tile.dtype == "float16"):
        return lambda row, c, *at: rounded(stored(row, c, *at), tile.dtype)
    channels = cut.parts // cut.rounds * cut.channels
    return copy_rows(tile, [channels, *kernel], stored, side_by_side=scattered)


def _multiply(
    cut: ShiftedCut,
    walk: Sequence[Walk],
    staged: _Staged,
    weight: Read,
    results: tuple[tirx.Buffer, tirx.Buffer],
    place: list[ir.Expr],
) -> None:
    """Emits a tile's product.

    Args:
        cut: of the product.
        walk: over the image.
        staged: the image.
        weight: of `_weights`.
        results: sums in memory, float32[tiles, walks, rows, columns], and the tile's registers.
        place: tile, walk and column where the tile's sums begin.
    """
    tile, (sums, registers), (*outer, column) = cut.tile, results, place
    strides = strides_of([each.staged for each in walk])

    def right(vector: int, part: ir.Expr, c: ir.Expr, *taps: ir.Expr) -> ir.Expr:
        at = tile.span(vector, column + shift_of(walk, strides, taps))
        return staged.vector(part, [*phase_at(walk, cut.phases, taps), c, at])

    def left(row: int, part: ir.Expr, c: ir.Expr, *taps: ir.Expr) -> ir.Expr:
        place = (w.weight(t) for w, t in zip(walk, taps, strict=True))
        return weight(row, part * cut.channels + c, *place)

    extents = [cut.parts // cut.rounds, cut.channels, *(each.taps for each in walk)]
    if cut.rounds == 1:
        multiply_into(sums, registers, tile, place, extents, left, right)
        return

    def of_sums(row: int, vector: int) -> list[ir.Expr]:
        return [*outer, index(row), tile.span(vector, column)]

    add_into(sums, registers, tile, of_sums, extents, left, right)


def _write(
    sums: tirx.Buffer,
    place: list[ir.Expr],
    line: Sequence[Sequence[Walk]],
    cut: ShiftedCut,
    store: Store,
    start: tuple[ir.Expr, ir.Expr, ir.Expr],
) -> None:
    """Emits the copy of a tile's results to where they belong, line by line.

    Args:
        sums: float32[tiles, walks, rows, columns].
        place: of the tile and its first walk.
        line: walks that share the lines of the result.
        cut: of the product.
        store: takes an element.
        start: first image, first row of results and first row of the tile.
    """
    n, first, m = start
    (t, share_of_first), tile, block, walk = place, cut.tile, cut.block, line[0]
    strides = strides_of([each.staged for each in walk])
    middle = [each.out for each in walk[1:-1]]
    rows = min(block.rows, walk[0].out)
    width = sum(each[-1].out for each in line)
    is_whole = len(line) == 1 and walk[-1].target(1) - walk[-1].target(0) == 1
    gathered = None if is_whole else T.sblock_alloc_buffer((width,), "float32")
    with T.grid(tile.rows, block.images, rows, *middle) as (i, of, row, *inner):
        base = (of * block.staged_rows + row) * block.inner + sum(
            (o * stride for o, stride in zip(inner, strides[1:-1], strict=True)), index(0)
        )
        at = [each.target(o) for each, o in zip(walk, [first + row, *inner], strict=False)]

        def value(o: ir.Expr, share: int = 0, base: ir.Expr = base) -> ir.Expr:
            return tirx.BufferLoad(sums, [t, share_of_first + share, i, base + o])

        def put(o: ir.Expr) -> None:
            result = value(o) if gathered is None else tirx.BufferLoad(gathered, [o])
            store(n + of, m + i, [*at, o], result)

        if gathered is not None:
            for share, each in enumerate(line):
                with T.serial(each[-1].out) as o:
                    T.buffer_store(gathered, value(o, share), [each[-1].target(o)])

        def put_all(begin: ir.Expr | int, count: int) -> None:
            with T.vectorized(count) as lane:
                put(begin + lane)

        each_block(width, tile.lanes, put_all)
