"""What is measured, in which order: README.md's first, then the oldest; as much as fits."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.results.place import Age, Place
from benchmarks.results.table import Row


class ChoiceError(ValueError):
    """A name that no row has, or whose row no command writes."""


@dataclass(frozen=True)
class Item:
    """A row with the age of its file."""

    row: Row
    age: Age

    @property
    def minutes(self) -> float:
        """That it takes: as long as it took, else what the table says."""
        return self.age.minutes or self.row.minutes


def items_of(rows: Iterable[Row], place: Place) -> list[Item]:
    """All rows in the order in which they are measured; those written by hand come last."""
    found = [Item(row, place.age(row)) for row in rows]
    return sorted(
        found,
        key=lambda each: (bool(each.row.by_hand), not each.row.is_of_readme, each.age.date),
    )


def named(items: Sequence[Item], names: Sequence[str]) -> list[Item]:
    """Those of these names.

    Raises:
        ChoiceError: one is no row, or is written by hand.
    """
    by_name = {each.row.name: each for each in items}
    for name in names:
        if name not in by_name:
            raise ChoiceError(f"no result {name!r}: --list names them")
        if by_name[name].row.by_hand:
            raise ChoiceError(f"{name} is not measured here: {by_name[name].row.by_hand}")
    return [each for each in items if each.row.name in names]


def to_measure(items: Iterable[Item], *, again: bool = False) -> list[Item]:
    """Those that a command writes, and that are not of this commit and machine already.

    Args:
        items: to choose from.
        again: take these, too.
    """
    return [each for each in items if not each.row.by_hand and (again or not each.age.is_current)]


def fitting(items: Iterable[Item], minutes: float) -> list[Item]:
    """As many as fit into that time, in their order; one that is too long is left out."""
    chosen, left = [], minutes
    for each in items:
        if each.minutes <= left:
            chosen.append(each)
            left -= each.minutes
    return chosen
