"""Costs of a few choices each, eliminated one choice after the other.

A sum of tables, each over some variables, is made least by eliminating a variable: all tables that
it is in are added up, and the best it can do becomes a table over the others (Dechter, "Bucket
elimination", 1999). Of a variable in tables of one or two others that is what reductions of
partitioned boolean quadratic problems do (Scholz and Eckstein, 2002); it is exact with any number.

Where a sum of tables would be too large, it is made least in parts, each by itself: the result is a
bound then, and a choice that is perhaps not the best one (Dechter and Rish, "Mini-buckets", 2003).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

# Numbers of a table, at most.
MOST = 1 << 20


@dataclass(frozen=True, eq=False)
class Table:
    """Costs by the values of some variables.

    Attributes:
        scope: the variables, rising.
        costs: float64, an axis for each.
    """

    scope: tuple[int, ...]
    costs: np.ndarray

    def at(self, values: Mapping[int, int]) -> float:
        """The cost of a choice."""
        return float(self.costs[tuple(values[each] for each in self.scope)])


def least(
    sizes: Sequence[int], tables: Sequence[Table], most: int = MOST
) -> tuple[list[int], float]:
    """Values of all variables, and a bound that no choice of values is below.

    Args:
        sizes: how many values each variable has.
        tables: their costs, whose sum is made least; infinite for what cannot be.
        most: numbers of a table; the choice is the best one where that is enough.
    """
    # What has one value is no choice; an array has an axis for few choices only.
    tables = [_without_single(table, sizes) for table in tables]
    buckets: dict[int, dict[int, Table]] = {n: {} for n, size in enumerate(sizes) if size > 1}
    bound, eliminated = 0.0, []
    for number, table in enumerate(tables):
        _put(buckets, number, table)
    bound += sum(float(table.costs) for table in tables if not table.scope)
    made = len(tables)
    left = {each: _volume(own.values(), each, sizes) for each, own in buckets.items()}
    while left:
        variable = min(left, key=lambda each: (left[each], each))
        del left[variable]
        own = dict(buckets[variable])
        for number, table in own.items():
            for each in table.scope:
                buckets[each].pop(number, None)
        eliminated.append((variable, list(own.values())))
        for part in _parts(list(own.values()), sizes, most):
            rest = _without(variable, part, sizes)
            if rest.scope:
                _put(buckets, made, rest)
                made += 1
            else:
                bound += float(rest.costs)
        for each in _scope([*own.values()]):
            if each in left:
                left[each] = _volume(buckets[each].values(), each, sizes)
    values: dict[int, int] = {}
    for variable, own in reversed(eliminated):
        costs = [
            sum(table.at({**values, variable: value}) for table in own)
            for value in range(sizes[variable])
        ]
        values[variable] = int(np.argmin(costs))
    return [values.get(each, 0) for each in range(len(sizes))], bound


def _without_single(table: Table, sizes: Sequence[int]) -> Table:
    """The table over the variables that have several values."""
    scope = tuple(each for each in table.scope if sizes[each] > 1)
    return Table(scope, table.costs.reshape([sizes[each] for each in scope]))


def _put(buckets: dict[int, dict[int, Table]], number: int, table: Table) -> None:
    for each in table.scope:
        buckets[each][number] = table


def _scope(tables: Iterable[Table]) -> tuple[int, ...]:
    return tuple(sorted(set().union(*(table.scope for table in tables))))


def _volume(tables: Iterable[Table], variable: int, sizes: Sequence[int]) -> int:
    """Numbers of the table that is left of a variable."""
    return math.prod(sizes[each] for each in set().union(*(t.scope for t in tables)) - {variable})


def _parts(tables: Sequence[Table], sizes: Sequence[int], most: int) -> list[list[Table]]:
    """Tables in groups whose sums are not too large: one group, if that goes."""
    parts: list[list[Table]] = []
    for table in sorted(tables, key=lambda each: -each.costs.size):
        for part in parts:
            if math.prod(sizes[each] for each in _scope([*part, table])) <= most:
                part.append(table)
                break
        else:
            parts.append([table])
    return parts


def _without(variable: int, tables: Sequence[Table], sizes: Sequence[int]) -> Table:
    """The least sum of tables over the values of a variable."""
    scope = _scope(tables)
    total = np.zeros([sizes[each] for each in scope])
    for table in tables:
        shape = [sizes[each] if each in table.scope else 1 for each in scope]
        total = total + table.costs.reshape(shape)
    rest = tuple(each for each in scope if each != variable)
    return Table(rest, total.min(axis=scope.index(variable)))
