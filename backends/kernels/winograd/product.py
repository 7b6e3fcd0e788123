"""A convolution of 3x3 taps, or the gradient of its data, in Winograd's form.

Four results in a square, a patch, read 4x4 elements of the image: 16 products for each channel in
place of 36. The transformed weights are made once, for all tasks. A task transforms a block of
patches, of as many as have room near a core, and multiplies it by all weights in 16 products of
matrices, one for each point; the sums of a tile's rows are transformed back into lines of results,
to which the tail is applied. See `backends/kernels/winograd/terms.py`.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.places import index, unflatten
from odtc.backends.kernels.common.vectors import each_block, interleave, ramp, splat
from odtc.backends.kernels.convolution.grid import Walk
from odtc.backends.kernels.convolution.shifted_cut import Shape
from odtc.backends.kernels.convolution.shifted_product import Store
from odtc.backends.kernels.convolution.staging import Read
from odtc.backends.kernels.product.tile import Machine, accumulator, keep, multiply
from odtc.backends.kernels.winograd.cut import POINTS, REACH, RESULTS, TAPS, PatchCut, patch_cut
from odtc.backends.kernels.winograd.patches import Patches, Place, divisor, named
from odtc.backends.kernels.winograd.terms import in_both, of_products, of_taps

# Rows of the weights that are transformed by a task.
_RUN = 16


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
    # A vector more, so that channels do not push each other out of a cache.
    extents = (POINTS, shape.channels, cut.columns + lanes)
    if cut.splits == 1:
        with T.parallel(cut.blocks) as which:
            first = _first(cut, which)
            own = T.sblock_alloc_buffer(extents, "float32")
            patches.transform(first, index(0), shape.channels, lambda *at: (own, [*at]))
            product.multiply(which, index(0), lambda *at: (own, [*at]))
        return
    # Blocks are too few for all tasks: channels are transformed by several of them, for all.
    shared = T.sblock_alloc_buffer((cut.blocks, *extents), "float32")
    run = divisor(shape.channels, -(-shape.channels // cut.splits))
    parts = shape.channels // run
    with T.parallel(cut.blocks * parts) as task:
        which, part = unflatten(task, (cut.blocks, parts))
        patches.transform(_first(cut, which), part * run, run, lambda *at: (shared, [which, *at]))
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

    def multiply(self, which: ir.Expr, split: ir.Expr, place: Place) -> None:
        """Emits the products of a block, and the stores of its results.

        Args:
            which: of the blocks.
            split: of the rows of the weights.
            place: of the patches.
        """
        cut, tile = self.cut, self.cut.tile
        registers = accumulator(tile)
        sums = T.sblock_alloc_buffer((POINTS, tile.rows, tile.columns), "float32")
        lines = T.sblock_alloc_buffer((RESULTS, tile.rows, RESULTS * cut.columns), "float32")
        with T.serial(cut.tiles) as t:
            due = (split * cut.tiles + t) * tile.rows
            m = T.Bind(tirx.min(due, self.shape.rows - tile.rows))
            with T.serial(cut.panels) as panel:
                column = T.Bind(panel * tile.columns)
                with T.serial(POINTS) as p:

                    def right(v: int, c: ir.Expr) -> ir.Expr:
                        buffer, at = place(p, c, tile.span(v, column))
                        return tirx.BufferLoad(buffer, at)

                    def left(row: int, c: ir.Expr) -> ir.Expr:
                        return tirx.BufferLoad(self.weights, [p, m + row, c])

                    multiply(registers, tile, [self.shape.channels], left, right)
                    keep(registers, sums, tile, 0, [p])
                with T.grid(tile.rows, tile.vectors) as (i, v):
                    self._put_results(sums, lines, i, v * tile.lanes, column)
            self._write(lines, which, m, due)

    def _put_results(
        self,
        sums: tirx.Buffer,
        lines: tirx.Buffer,
        row: ir.Expr,
        begin: ir.Expr,
        column: ir.Expr,
    ) -> None:
        """Emits the transform of a vector of patches into two lines of results."""
        lanes = self.lanes
        points = [
            [named(sums, [index(REACH * i + j), row, ramp(begin, lanes)]) for j in range(REACH)]
            for i in range(REACH)
        ]
        for i, pair in enumerate(in_both(of_products, points, T.Bind)):
            at = ramp(RESULTS * (column + begin), RESULTS * lanes)
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
