"""Passes over rows of which later ones need sums of earlier ones, as normalisations have them.

A row is taken as a whole, pass after pass.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import ir

from odtc.backends.kernels.rows.passes import Row, Terms, rows

# The sums of the passes so far.
Sums = Sequence[ir.Expr]


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
        last: is given the number of a row, the row, and all sums.
    """
    with rows(count, count * row.segments * row.size, row.lanes) as at:
        sums: list[ir.Expr] = []
        for stage in stages:
            sums += row.fold(stage.terms(at, sums), count=stage.count)
        last(at, row, sums)
