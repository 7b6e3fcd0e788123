"""What results of some rows read of a band by the taps of a window.

A core whose loads are narrower than its vectors begins no multiply-add while it loads one, and taps
of a row differ by a shift of few elements. There a row is loaded once: its taps are cut out of two
vectors that follow each other, of which the second is the first one of the next results.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.vectors import Index, each_part, joined, ramp
from odtc.backends.kernels.pool.bands import Band
from odtc.backends.kernels.pool.planes import Tap

# From a line, a tap, and how many rows behind the first the result's is, to a vector.
Tapped = Callable[[Index, Tap, int], ir.Expr]
# Given what taps read, the first column, elements of a vector, and how many the one before has.
Emit = Callable[[Tapped, Index, int, int], None]


@dataclass(frozen=True)
class Staged:
    """Bands of planes in a buffer.

    Attributes:
        lines: the buffer `[lines, size]`, of which each is a band.
        band: how they lie.
    """

    lines: tirx.Buffer
    band: Band

    def read(self, line: Index, row: Index, column: Index, width: int) -> ir.Expr:
        """A vector, whose place is counted from the first result."""
        return self.lines[line, ramp(self.band.at(row, column), width)]

    def tapped(self, row: Index, column: Index, width: int) -> Tapped:
        """What taps read, each by a load."""
        return lambda line, tap, k: self.read(
            line, row + k + tap.shift[0], column + tap.shift[1], width
        )


def each_tapped(
    staged: Staged,
    row: Index,
    count: int,
    columns: tuple[int, int],
    once: Sequence[tuple[int, Tap]],
    emit: Emit,
) -> None:
    """Emits `emit` for the vectors that cover rows of results.

    Args:
        staged: what taps read.
        row: of the first results.
        count: of rows.
        columns: of a row, and of a vector.
        once: taps with their lines, whose rows are loaded once; each line has a vector behind it.
        emit: emits results.
    """
    length, lanes = columns
    rows = _rows(once, count, lanes) if length >= lanes else {}
    held = {place: T.sblock_alloc_buffer((lanes,), "float32", scope="local") for place in rows}
    whole = ramp(0, lanes)
    for place, buffer in held.items():
        first = staged.read(place[0], row + place[1], rows[place], lanes)
        T.buffer_store(buffer, first, [whole])

    def block(column: Index, width: int, seen: int) -> None:
        pairs: dict[tuple[Index, int], tuple[ir.Expr, ir.Expr]] = {}
        for (line, down), buffer in held.items():
            at = column + rows[line, down]
            # The last vector of a row overlaps the one before.
            here = staged.read(line, row + down, at, lanes) if seen else buffer[whole]
            here = T.bind(here)
            behind = T.bind(staged.read(line, row + down, at + lanes, lanes))
            T.buffer_store(buffer, behind, [whole])
            pairs[line, down] = here, behind
        each_by_load = staged.tapped(row, column, width)

        def tapped(line: Index, tap: Tap, k: int) -> ir.Expr:
            place = line, k + tap.shift[0]
            if not isinstance(line, int) or place not in pairs:
                return each_by_load(line, tap, k)
            return joined(*pairs[place], tap.shift[1] - rows[line, place[1]], lanes)

        emit(tapped, column, width, seen)

    each_part(length, lanes, block)


def _rows(once: Sequence[tuple[int, Tap]], count: int, lanes: int) -> dict[tuple[int, int], int]:
    """Rows that several taps read, within two vectors: the first shift, by line and row."""
    found: dict[tuple[int, int], set[int]] = {}
    for line, tap in once:
        for k in range(count):
            found.setdefault((line, k + tap.shift[0]), set()).add(tap.shift[1])
    return {
        place: min(shifts)
        for place, shifts in found.items()
        if len(shifts) > 1 and max(shifts) - min(shifts) <= lanes
    }
