"""Image planes a few rows at a time: what depthwise convolutions and max pooling are built from.

A band of a plane is copied with what is around it, so that every tap of a window is a plain shift
and no position is tested in the inner loop. It is small enough to stay in the first cache beside
what streams past it; a whole plane mostly is not. Where a window steps by more than one, each
remainder of an index is a phase with rows of its own.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.places import divisors
from odtc.backends.kernels.common.vectors import Index, deinterleave, each_block, ramp, splat
from odtc.backends.kernels.pool.planes import Pair, Read
from odtc.backends.kernels.product.tile import TASKS, Machine

# Bytes of a band: with more, what is staged drives out of the first cache what is read beside it.
_BAND = 5 << 10
# Tasks that may be better than the usual number.
_TASKS = (16, 32, 4)


@dataclass(frozen=True)
class Band:
    """Some rows of a plane, for so many rows of results.

    Attributes:
        source: sizes of the plane.
        stride: of the window over it, which makes phases of it.
        results: sizes of the results, as positions in a phase.
        before: rows and columns of a phase that are read in front of a result.
        behind: the same, after it.
        rows: of results.
        multiple: of which a row's pitch is one.
        lead: of which the number of elements in front of a row's first result is one.
    """

    source: Pair
    stride: Pair
    results: Pair
    before: Pair
    behind: Pair
    rows: int
    multiple: int = 1
    lead: int = 1

    @property
    def is_whole(self) -> bool:
        """Whether there is one band only."""
        return self.rows == self.results[0]

    @property
    def height(self) -> int:
        """Rows of each phase."""
        there = -(-self.source[0] // self.stride[0]) if self.is_whole else 0
        return self.before[0] + max(there, self.rows + self.behind[0])

    @property
    def pitch(self) -> int:
        """Elements from a row to the next one."""
        columns = -(-self.source[1] // self.stride[1])
        least = self.left + max(columns, self.results[1] + self.behind[1])
        return -(-least // self.multiple) * self.multiple

    @property
    def left(self) -> int:
        """Elements of a row in front of its first result."""
        return -(-self.before[1] // self.lead) * self.lead

    @property
    def shape(self) -> Pair:
        """Phases, and elements of each."""
        return math.prod(self.stride), self.height * self.pitch

    def at(self, row: Index, column: Index) -> Index:
        """Where an element of a phase lies, counted from the first result."""
        return (row + self.before[0]) * self.pitch + column + self.left


def usual_band(
    source: Pair,
    stride: Pair,
    results: Pair,
    shifts: Sequence[Pair],
    copies: int = 1,
    multiple: int = 1,
    lead: int = 1,
) -> Band:
    """The band of a plane that a model of a core has: one that stays in its first cache.

    It is not so low that more rows are staged for their neighbours than for themselves.

    Args:
        source: sizes of the plane.
        stride: of the window over it.
        results: sizes of the results, as positions in a phase.
        shifts: from a result to what it reads of a phase.
        copies: of bands that are there at once.
        multiple: of which a row's pitch is one.
        lead: of which what is in front of a row's first result is one.
    """
    by_rows, by_columns = zip(*shifts, strict=True)
    before = max(0, -min(by_rows)), max(0, -min(by_columns))
    behind = max(0, *by_rows), max(0, *by_columns)
    height = results[0]
    whole = Band(source, stride, results, before, behind, height, multiple, lead)
    least = max(1, min(height, before[0] + behind[0]))

    def fits(rows: int) -> bool:
        return 4 * copies * math.prod(replace(whole, rows=rows).shape) <= _BAND

    most = next(filter(fits, range(height, least, -1)), least)
    # As even a cut as can be: the last band reaches back over what the one before it has.
    return replace(whole, rows=-(-height // -(-height // most)))


def decided(band: Band, machine: Machine) -> Band:
    """The band, or one with another number of rows."""
    height, usual = band.results[0], band.rows
    others = (min(height, max(1, usual * up // down)) for up, down in ((1, 2), (2, 1), (4, 1)))
    (rows,) = machine.decide("block", [(each,) for each in (*others, height)], (usual,))
    return replace(band, rows=rows)


def planes_each(count: int, machine: Machine) -> int:
    """Planes that a task takes one after the other, of so many: a divisor, for tasks enough."""
    (wanted,) = machine.decide("tasks", [(n,) for n in _TASKS], (TASKS,))
    least = min(wanted, count)
    return max(each for each in divisors(count) if count // each >= least)


def each_band(band: Band, emit: Callable[[Index, Index], None]) -> None:
    """Emits `emit(first, known)` for each band of a plane.

    The last one reaches back, so that all are equally long.

    Args:
        band: of the plane.
        emit: is given the first row of results, and how many the band before had already.
    """
    height = band.results[0]
    if band.is_whole:
        emit(0, 0)
        return
    with T.serial(-(-height // band.rows)) as number:
        begin = number * band.rows
        if height % band.rows == 0:
            emit(begin, 0)
            return
        first = T.bind(tirx.min(begin, height - band.rows))
        emit(first, begin - first)


@contextmanager
def only(condition: ir.Expr, *, always: bool) -> Iterator[None]:
    """Guards what is emitted in the block by a condition, unless it `always` holds."""
    if always:
        yield
        return
    with T.If(condition), T.Then():
        yield


def stage(
    buffer: tirx.Buffer,
    band: Band,
    first: Index,
    lanes: int,
    read: Read,
    line: int = 0,
    around: float = 0.0,
) -> None:
    """Emits the copy of a band; what is left and right of its rows is there already.

    Args:
        buffer: the phases, of `band.shape`; where the band is whole, so is what is above and below.
        band: what of the plane.
        first: its first row of results.
        lanes: elements in a vector.
        read: `read(row, column, width)`, elements of a row of the plane.
        line: of the first phase in the buffer.
        around: what is around the plane.
    """
    (height, columns), (down, right) = band.source, band.stride
    outside = tirx.const(around, str(buffer.dtype))
    whole, rest = divmod(columns, right)

    def copy(phase: int, r: Index, values: Callable[[Index, int], ir.Expr]) -> None:
        def block(c: Index, count: int, width: int) -> None:
            parts = deinterleave(values(c * right, count * width), count, width)
            for way, part in enumerate(parts):
                at = [line + phase * right + way, ramp(band.at(r, c), width)]
                T.buffer_store(buffer, part, at)

        each_block(whole, lanes, lambda c, width: block(c, right, width))
        if rest:
            block(whole, rest, 1)

    def row(phase: int, r: Index) -> None:
        copy(phase, r, lambda c, width: read((first + r) * down + phase, c, width))

    for phase in range(down):
        if band.is_whole:
            if height > phase:
                with T.serial(-(-(height - phase) // down)) as r:
                    row(phase, r)
            continue
        with T.serial(band.height) as step:
            r = step - band.before[0]
            at = T.bind((first + r) * down + phase)
            with T.If(tirx.And(at >= 0, at < height)):
                with T.Then():
                    row(phase, r)
                with T.Else():
                    copy(phase, r, lambda _, width: splat(outside, width))
