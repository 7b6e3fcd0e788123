"""A convolution of 3x3 taps, or the gradient of its data, in Winograd's form.

Four results in a square, a patch, read 4x4 elements of the image: 16 products for each channel in
place of 36. The transformed weights are made once, for all tasks. A task transforms a block of
patches, of as many as have room near a core, and multiplies it by all weights in 16 products of
matrices, one for each point; the sums of a tile's rows are transformed back into lines of results,
to which the tail is applied. See `backends/kernels/winograd/terms.py`.

Where a core's first-level cache is known and sums are long, the patches of one point are multiplied
by all rows before those of the next: a panel of them is read from that cache then, and the sums of
all points wait in memory.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.places import CACHE_LINE, index, unflatten
from odtc.backends.kernels.common.vectors import each_block, interleave, ramp, splat
from odtc.backends.kernels.convolution.grid import Walk
from odtc.backends.kernels.convolution.shifted_cut import Shape
from odtc.backends.kernels.convolution.shifted_product import Store
from odtc.backends.kernels.convolution.staging import Read
from odtc.backends.kernels.product.tile import Machine, accumulator, multiply
from odtc.backends.kernels.winograd.cut import (
    POINTS,
    REACH,
    RESULTS,
    TAPS,
    PatchCut,
    is_by_points,
    patch_cut,
)
from odtc.backends.kernels.winograd.patches import Patches, Place, divisor, named
from odtc.backends.kernels.winograd.terms import in_both, of_products, of_taps

# Rows of the weights that are transformed by a task.
_RUN = 16
# Elements in a line of a cache.
_LINE = CACHE_LINE // 4
# Sums of products in memory, by point, after outer indices.
Sums = tuple[tirx.Buffer, list[ir.Expr]]


def winograd_product(
    shape: Shape,
    walk: Sequence[Walk],
    image: Read,
    weight: Read,
    store: Store,
    machine: Machine,
) -> None:
    """Emits the product.

    Args:
        shape: sizes.
        walk: over the image; see `is_winograd`.
        image: `(n, channel, *at)` to an element.
        weight: `(row, channel, *taps)` to an element.
        store: takes an element: `(n, row, at, value)`.
        machine: the CPU.
    """
    cut, lanes = patch_cut(shape, walk, machine), machine.lanes
    weights = T.sblock_alloc_buffer((POINTS, shape.rows, shape.channels), "float32")
    _transform_weights(shape, walk, weight, weights, lanes)
    patches = Patches(walk, cut, lanes, image)
    product = _Product(shape, walk, cut, lanes, store, weights)
    by_points = is_by_points(shape, machine)
    # A vector more, so that channels do not push each other out of a cache.
    extents = (POINTS, shape.channels, cut.columns + lanes)
    if cut.splits == 1:
        with T.parallel(cut.blocks) as which:
            first = _first(cut, which)
            own = T.sblock_alloc_buffer(extents, "float32")
            patches.transform(first, index(0), shape.channels, lambda *at: (own, [*at]))
            if by_points:
                sums = T.sblock_alloc_buffer(product.all_sums, "float32")
                with T.serial(POINTS) as p:
                    product.add_point(p, lambda *at: (own, [*at]), (sums, []))
                product.put_tiles(which, index(0), (sums, []))
            else:
                product.multiply(which, index(0), lambda *at: (own, [*at]))
        return
    # Blocks are too few for all tasks: channels are transformed by several of them, for all.
    shared = T.sblock_alloc_buffer((cut.blocks, *extents), "float32")
    run = divisor(shape.channels, -(-shape.channels // cut.splits))
    parts = shape.channels // run
    with T.parallel(cut.blocks * parts) as task:
        which, part = unflatten(task, (cut.blocks, parts))
        patches.transform(_first(cut, which), part * run, run, lambda *at: (shared, [which, *at]))
    if by_points:
        sums = T.sblock_alloc_buffer((cut.blocks, *product.all_sums), "float32")
        with T.parallel(cut.blocks * POINTS) as task:
            which, p = unflatten(task, (cut.blocks, POINTS))
            product.add_point(p, lambda *at: (shared, [which, *at]), (sums, [which]))
        with T.parallel(cut.blocks * cut.splits) as task:
            which, split = unflatten(task, (cut.blocks, cut.splits))
            product.put_tiles(which, split, (sums, [which]))
        return
    with T.parallel(cut.blocks * cut.splits) as task:
        which, split = unflatten(task, (cut.blocks, cut.splits))
        product.multiply(which, split, lambda *at: (shared, [which, *at]))


def _first(cut: PatchCut, which: ir.Expr) -> ir.Expr:
    """The first row of patches of a block."""
    return T.Bind(tirx.min(which * cut.rows, cut.total - cut.rows))


def _transform_weights(
    shape: Shape, walk: Sequence[Walk], weight: Read, weights: tirx.Buffer, lanes: int
) -> None:
    """Emits the transform of all weights, a vector of channels at a time."""
    run = min(_RUN, shape.rows)
    with T.parallel(-(-shape.rows // run)) as part:
        first = T.Bind(tirx.min(part * run, shape.rows - run))
        taps = T.sblock_alloc_buffer((run, TAPS, TAPS, lanes), "float32")

        def put(begin: ir.Expr | int, width: int) -> None:
            with T.grid(width, run, TAPS, TAPS) as (c, m, i, j):
                at = (walk[0].weight(i), walk[1].weight(j))
                T.buffer_store(taps, weight(first + m, begin + c, *at), [m, i, j, c])
            with T.serial(run) as m:
                each, at = [*map(index, range(TAPS))], ramp(index(0), width)
                rows = [[named(taps, [m, i, j, at]) for j in each] for i in each]
                half = splat(tirx.const(0.5, "float32"), width)
                points = itertools.chain(*in_both(of_taps(half), rows, T.Bind))
                for p, value in enumerate(points):
                    T.buffer_store(weights, value, [index(p), first + m, ramp(begin, width)])

        each_block(shape.channels, lanes, put)


@dataclass(frozen=True)
class _Product:
    """The product, whose weights are transformed.

    Attributes:
        shape: sizes.
        walk: over the image.
        cut: of the patches.
        lanes: elements of a vector.
        store: takes an element.
        weights: transformed, float32[points, rows, channels].
    """

    shape: Shape
    walk: Sequence[Walk]
    cut: PatchCut
    lanes: int
    store: Store
    weights: tirx.Buffer

    @property
    def all_sums(self) -> tuple[int, int]:
        """Extents of the sums of a block: by point, tile by tile.

        Each has a line more, so that points do not push each other out of a cache.
        """
        tile = self.cut.tile
        return POINTS, self._tiles * self.cut.panels * tile.rows * tile.columns + _LINE

    @property
    def _tiles(self) -> int:
        return -(-self.shape.rows // self.cut.tile.rows)

    def multiply(self, which: ir.Expr, split: ir.Expr, place: Place) -> None:
        """Emits the products of a block, and the stores of its results.

        Args:
            which: of the blocks.
            split: of the rows of the weights.
            place: of the patches.
        """
        cut, tile = self.cut, self.cut.tile
        registers = accumulator(tile)
        sums = T.sblock_alloc_buffer((POINTS, tile.rows * tile.columns), "float32")
        lines = self._lines()
        with T.serial(cut.tiles) as t:
            m, due = self._row(split * cut.tiles + t)
            with T.serial(cut.panels) as panel:
                with T.serial(POINTS) as p:
                    self._add_terms(registers, (p, m), panel, place)
                    self._keep(registers, (sums, []), p, index(0))
                self._put_panel((sums, []), lines, index(0), panel)
            self._write(lines, which, m, due)

    def add_point(self, p: ir.Expr, place: Place, sums: Sums) -> None:
        """Emits the sums of a point, for all rows and columns of a block.

        Args:
            p: the point.
            place: of the patches.
            sums: of `all_sums`, after outer indices.
        """
        registers = accumulator(self.cut.tile)
        with T.grid(self.cut.panels, self._tiles) as (panel, t):
            self._add_terms(registers, (p, self._row(t)[0]), panel, place)
            self._keep(registers, sums, p, t * self.cut.panels + panel)

    def put_tiles(self, which: ir.Expr, split: ir.Expr, sums: Sums) -> None:
        """Emits the stores of a block's results, of a split of the rows; see `add_point`."""
        cut, lines = self.cut, self._lines()
        with T.serial(cut.tiles) as t:
            m, due = self._row(split * cut.tiles + t)
            # The last split may have fewer tiles: of more of them nothing is stored.
            number = T.Bind(tirx.min(split * cut.tiles + t, index(self._tiles - 1)))
            with T.serial(cut.panels) as panel:
                self._put_panel(sums, lines, number * cut.panels + panel, panel)
            self._write(lines, which, m, due)

    def _lines(self) -> tirx.Buffer:
        extents = RESULTS, self.cut.tile.rows, RESULTS * self.cut.columns
        return T.sblock_alloc_buffer(extents, "float32")

    def _row(self, t: ir.Expr) -> tuple[ir.Expr, ir.Expr]:
        """The first row of a tile, and the same if tiles did not reach back."""
        due = t * self.cut.tile.rows
        return T.Bind(tirx.min(due, self.shape.rows - self.cut.tile.rows)), due

    def _keep(self, registers: tirx.Buffer, sums: Sums, p: ir.Expr, number: ir.Expr) -> None:
        """Emits the copy of a tile's registers to its place among the sums of a point."""
        tile, (buffer, outer) = self.cut.tile, sums
        for row, v in itertools.product(range(tile.rows), range(tile.vectors)):
            value = tirx.BufferLoad(registers, [index(row), tile.span(v)])
            at = tile.span(v, (number * tile.rows + row) * tile.columns)
            T.buffer_store(buffer, value, [*outer, p, at])

    def _put_panel(self, sums: Sums, lines: tirx.Buffer, number: ir.Expr, panel: ir.Expr) -> None:
        """Emits the transform of a tile's sums, of so many before it, into lines of results."""
        tile = self.cut.tile
        with T.grid(tile.rows, tile.vectors) as (i, v):
            begin = (number * tile.rows + i) * tile.columns + v * tile.lanes
            self._put_results(sums, begin, lines, (i, panel * tile.columns + v * tile.lanes))

    def _add_terms(
        self, registers: tirx.Buffer, start: tuple[ir.Expr, ir.Expr], panel: ir.Expr, place: Place
    ) -> None:
        """Emits the sums of a tile at a point, whose first row is told with it, in a panel."""
        tile, (p, m) = self.cut.tile, start
        column = T.Bind(panel * tile.columns)

        def right(v: int, c: ir.Expr) -> ir.Expr:
            buffer, at = place(p, c, tile.span(v, column))
            return tirx.BufferLoad(buffer, at)

        def left(row: int, c: ir.Expr) -> ir.Expr:
            return tirx.BufferLoad(self.weights, [p, m + row, c])

        multiply(registers, tile, [self.shape.channels], left, right)

    def _put_results(
        self, sums: Sums, begin: ir.Expr, lines: tirx.Buffer, place: tuple[ir.Expr, ir.Expr]
    ) -> None:
        """Emits the transform of a vector of sums into two lines of results.

        Args:
            sums: by point.
            begin: of the vector among those of a point.
            lines: float32[results, rows, columns].
            place: row of the lines, and column of the patches.
        """
        lanes, (buffer, outer), (row, column) = self.lanes, sums, place
        points = [
            [
                named(buffer, [*outer, index(REACH * i + j), ramp(begin, lanes)])
                for j in range(REACH)
            ]
            for i in range(REACH)
        ]
        for i, pair in enumerate(in_both(of_products, points, T.Bind)):
            at = ramp(RESULTS * column, RESULTS * lanes)
            T.buffer_store(lines, interleave(pair, lanes), [index(i), row, at])

    def _write(self, lines: tirx.Buffer, which: ir.Expr, m: ir.Expr, due: ir.Expr) -> None:
        """Emits the copy of a tile's results to where they belong, line by line.

        What the block or the tile before has stored is left out: a tail may read where it stores.

        Args:
            lines: float32[results, rows, columns].
            which: of the blocks.
            m: first row of the tile.
            due: the same, if tiles did not reach back.
        """
        cut, rows = self.cut, self.cut.tile.rows
        high, wide = (axis.out for axis in self.walk)
        first = _first(cut, which)
        is_whole = cut.total % cut.rows == 0
        done = index(0) if is_whole else T.Bind(which * cut.rows - first)
        is_whole = cut.splits * cut.tiles * rows == self.shape.rows
        above = index(0) if is_whole else T.Bind(tirx.min(due - m, rows))
        with T.grid(rows - above, cut.rows - done, RESULTS) as (i, r, of):
            row = first + done + r
            n, y = T.Bind(row // cut.high), T.Bind(row % cut.high * RESULTS + of)

            def put(begin: ir.Expr | int, width: int) -> None:
                with T.vectorized(width) as lane:
                    x = begin + lane
                    at = [of, above + i, (done + r) * (RESULTS * cut.wide) + x]
                    self.store(n, m + above + i, [y, x], tirx.BufferLoad(lines, at))

            with T.If(y < high), T.Then():
                each_block(wide, self.lanes, put)
