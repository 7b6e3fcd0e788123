"""The transform of an image into patches, for Winograd's form of a convolution.

Columns are transformed first, as lines of a row of patches with zeros at their ends, then rows, of
which neighbouring patches are taken apart. See `backends/kernels/winograd/product.py`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.places import divisors, index
from odtc.backends.kernels.common.vectors import deinterleave, each_block, ramp, splat
from odtc.backends.kernels.convolution.grid import Walk
from odtc.backends.kernels.convolution.staging import Read
from odtc.backends.kernels.winograd.cut import POINTS, REACH, RESULTS, PatchCut
from odtc.backends.kernels.winograd.terms import of_image

# Patches between the store of a line and its load, so that it is in the cache by then: a load of
# what two stores hold waits for both.
_BETWEEN = 128

# From point, channel and patches of a block to a buffer and the index there.
Place = Callable[[ir.Expr, ir.Expr, ir.Expr], tuple[tirx.Buffer, list[ir.Expr]]]


@dataclass(frozen=True)
class Patches:
    """The patches of an image.

    Attributes:
        walk: over the image.
        cut: of the patches.
        lanes: elements of a vector.
        image: `(n, channel, *at)` to an element.
    """

    walk: Sequence[Walk]
    cut: PatchCut
    lanes: int
    image: Read

    def transform(self, first: ir.Expr, begin: ir.Expr | int, count: int, place: Place) -> None:
        """Emits the transform of a block's patches.

        Args:
            first: row of patches.
            begin: first channel.
            count: of channels.
            place: where they belong.
        """
        cut, width = self.cut, self._width
        vectors = -(-cut.wide // width)
        run = divisor(count, max(_BETWEEN // cut.used, 1))
        # A line is as long as vectors read; what lies beside the image is zero.
        length = RESULTS * vectors * width + RESULTS
        lines = T.sblock_alloc_buffer((run, cut.rows, REACH, length), "float32")
        with T.grid(run, cut.rows, REACH) as at:
            each_block(
                length,
                self.lanes,
                lambda x, wide: T.buffer_store(lines, zero(wide), [*at, ramp(x, wide)]),
            )
        # Rows of patches begin anywhere: joined near the core, they leave it in whole lines.
        joined = T.sblock_alloc_buffer((POINTS, cut.columns + self.lanes), "float32")
        with T.grid(POINTS, -(-cut.columns // self.lanes)) as (p, v):
            T.buffer_store(joined, zero(self.lanes), [p, ramp(v * self.lanes, self.lanes)])
        with T.serial(count // run) as group:
            c = T.Bind(begin + group * run)
            with T.grid(run, cut.rows) as (k, r):
                self._put_lines(lines, first + r, c + k, [k, r])
            with T.serial(run) as k:
                with T.grid(cut.rows, vectors) as (r, v):
                    at = r * cut.wide + v * width
                    self._put_points(lines, [k, r], v * width, joined, at)
                with T.grid(POINTS, -(-cut.columns // self.lanes)) as (p, v):
                    at = ramp(v * self.lanes, self.lanes)
                    buffer, to = place(p, c + k, at)
                    T.buffer_store(buffer, named(joined, [p, at]), to)

    @property
    def _width(self) -> int:
        """Elements of the vectors of a row of patches."""
        return min(self.lanes, 1 << (self.cut.wide - 1).bit_length())

    def _put_lines(
        self, lines: tirx.Buffer, row: ir.Expr, channel: ir.Expr, to: list[ir.Expr]
    ) -> None:
        """Emits the transform of the columns of a row of patches."""
        high, wide = (axis.staged for axis in self.walk)
        n = T.Bind(row // self.cut.high)
        top = T.Bind(row % self.cut.high * RESULTS - high.before)
        length = min(wide.size, RESULTS * self.cut.wide + RESULTS - wide.before)

        def put_all(read: Callable[[int, ir.Expr, int], ir.Expr]) -> None:
            def put(begin: ir.Expr | int, width: int) -> None:
                rows = [T.Bind(read(i, ramp(begin, width), width)) for i in range(REACH)]
                for i, value in enumerate(of_image(rows)):
                    T.buffer_store(lines, value, [*to, index(i), ramp(begin + wide.before, width)])

            each_block(length, self.lanes, put)

        def inside(i: int, x: ir.Expr, _: int) -> ir.Expr:
            return self.image(n, channel, top + i, x)

        def anywhere(i: int, x: ir.Expr, width: int) -> ir.Expr:
            is_inside = tirx.all(top + i >= 0, top + i < high.size)
            return tirx.if_then_else(is_inside, inside(i, x, width), zero(width))

        with T.If(tirx.all(top >= 0, top + REACH <= high.size)):
            with T.Then():
                put_all(inside)
            with T.Else():
                put_all(anywhere)

    def _put_points(
        self,
        lines: tirx.Buffer,
        of: list[ir.Expr],
        begin: ir.Expr,
        joined: tirx.Buffer,
        column: ir.Expr,
    ) -> None:
        """Emits the transform of the rows of a vector of patches."""
        width = self._width
        for i in range(REACH):
            columns = [
                T.Bind(each)
                for shift in range(0, REACH, RESULTS)
                for each in deinterleave(
                    named(lines, [*of, index(i), ramp(RESULTS * begin + shift, RESULTS * width)]),
                    RESULTS,
                    width,
                )
            ]
            for j, value in enumerate(of_image(columns)):
                T.buffer_store(joined, value, [index(i * REACH + j), ramp(column, width)])


def named(buffer: tirx.Buffer, at: Sequence[ir.Expr]) -> ir.Expr:
    """An element, or a vector of them, by a name."""
    return T.Bind(tirx.BufferLoad(buffer, list(at)))


def zero(width: int) -> ir.Expr:
    """A vector of zeros."""
    return splat(tirx.const(0.0, "float32"), width)


def divisor(number: int, most: int) -> int:
    """The largest divisor that is not larger than this."""
    return max(each for each in divisors(number) if each <= most)
