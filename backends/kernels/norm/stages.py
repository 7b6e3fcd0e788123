"""Passes over rows of which later ones need sums of earlier ones, as normalisations have them.

A row is taken as a whole, pass after pass. Where rows are fewer than the teams that keep a GPU
busy, several teams share a row: each pass is a launch then, in which every team sums its part, and
teams of the next launch add up the parts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tvm import ir
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.rows.passes import Lanes, Row, Team, Terms, rows, teams

# The sums of the passes so far.
Sums = Sequence[ir.Expr]
# Elements of each item of a team, at least, where several teams share a row.
_LEAST_TURNS = 8


@dataclass(frozen=True)
class Stage:
    """A pass that sums.

    Attributes:
        terms: what is summed of a row, by its number and the sums so far.
        count: of the sums.
    """

    terms: Callable[[ir.Expr, Sums], Terms]
    count: int = 1


def staged(
    count: int, row: Row, stages: Sequence[Stage], last: Callable[[ir.Expr, Row, Sums], None]
) -> None:
    """Emits the stages, and the last pass after them, for all rows.

    Args:
        count: of rows.
        row: each of them.
        stages: in order.
        last: is given the number of a row, the row or the part of it to write, and all sums.
    """
    parts = _parts(count, row)
    if isinstance(row.lanes, Team) and parts > 1:
        _split(count, row, parts, row.lanes, stages, last)
        return
    with rows(count, count * row.segments * row.size, row.lanes) as at:
        sums: list[ir.Expr] = []
        for stage in stages:
            sums += row.fold(stage.terms(at, sums), count=stage.count)
        last(at, row, sums)


def _parts(count: int, row: Row) -> int:
    """How many teams share a row."""
    lanes: Lanes = row.lanes
    if not isinstance(lanes, Team):
        return 1
    most = row.segments * row.size // (lanes.items * _LEAST_TURNS)
    return max(1, min(lanes.groups // count, most))


def _split(
    count: int,
    row: Row,
    parts: int,
    team: Team,
    stages: Sequence[Stage],
    last: Callable[[ir.Expr, Row, Sums], None],
) -> None:
    partial = [T.sblock_alloc_buffer((each.count, count, parts), row.dtype) for each in stages]
    whole = Row(1, parts, team, row.dtype)

    def added(at: ir.Expr, number: int) -> list[ir.Expr]:
        """The sums of the first stages."""
        found: list[ir.Expr] = []
        for stage, sums in zip(stages[:number], partial, strict=False):

            def terms(_: ir.Expr, part: ir.Expr, stage=stage, sums=sums) -> list[ir.Expr]:
                return [sums[slot, at, part] for slot in range(stage.count)]

            found += whole.fold(terms, count=stage.count)
        return found

    for number, stage in enumerate(stages):
        with teams(team, count, parts) as (at, part):
            own = replace(row, part=part, parts=parts)
            sums = own.fold(stage.terms(at, added(at, number)), count=stage.count)
            for slot, value in enumerate(sums):
                T.buffer_store(partial[number], value, [slot, at, part])
    with teams(team, count, parts) as (at, part):
        last(at, replace(row, part=part, parts=parts), added(at, len(stages)))
