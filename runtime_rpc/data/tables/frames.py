"""DataFrames that are fed as arrays: their columns are taken by their names, as those of files."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Number
from typing import Any

import numpy as np

from odtc.core.ir.place import Place
from odtc.core.printable import printable
from odtc.core.specs import Argument
from odtc.runtime_rpc.data.names import listed
from odtc.runtime_rpc.data.tables.cells import empty_cells, shortened
from odtc.runtime_rpc.data.tables.columns import as_trained, check_count, check_once
from odtc.runtime_rpc.feed.arrays import called, inferred, is_frame, is_numbers, marked, no_numbers

_TABLES = ("pyarrow", "polars")
# Of a table: samples, and the numbers of each.
_AXES = 2


def is_table(data: Any) -> bool:
    """Whether it is a table or a column of Arrow or polars, which need not be imported for it."""
    return type(data).__module__.partition(".")[0] in _TABLES and hasattr(data, "to_pandas")


def framed(data: Any) -> Any:
    """A table of Arrow or polars as a DataFrame of pandas, with names of columns; else the same."""
    if not is_table(data):
        return data
    found = data.to_pandas()
    return marked(found, data) if is_frame(found) else data


@dataclass(frozen=True)
class ByNames:
    """What is fed, with the columns of its DataFrames where a step takes them.

    Attributes:
        feed: an input, or inputs by name.
        columns: the names of those of each input that is a DataFrame, in their order.
        notes: which were not taken.
    """

    feed: Any
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: Sequence[str] = ()


def by_names(
    feed: Any, inputs: Sequence[Argument], trained: Mapping[str, Sequence[str]]
) -> ByNames:
    """Takes the columns of DataFrames by the names that they had in training.

    Args:
        feed: an input, or inputs by name; what is no DataFrame stays as it is.
        inputs: of the step; what is no mapping is the only one.
        trained: the names of the columns of each input in training; where nobody knows them, all
            columns are taken in their order.

    Raises:
        DataError: a column is missing or there twice, there are more or fewer than a sample has
            numbers, or a cell is empty.
    """
    is_named = isinstance(feed, Mapping)
    feeds: Mapping[str, Any] = feed if is_named else {i.spec.name: feed for i in inputs[:1]}
    items = {item.spec.name: item for item in inputs}
    found, columns, notes = dict(feeds), dict[str, tuple[str, ...]](), list[str]()
    for name, given in feeds.items():
        frame = framed(given)
        if name not in items or not is_frame(frame):
            continue
        names = [*map(str, frame.columns)]
        chosen = _chosen(names, items[name], trained.get(name, ()), called(frame))
        if others := [each for each in names if each not in chosen]:
            said = f"not read, as they are not inputs: {listed(others)}; the step takes"
            notes.append(f"{called(frame)}: {said} {listed(chosen)}")
        found[name] = inferred(frame.iloc[:, [names.index(each) for each in chosen]])
        columns[name] = tuple(chosen)
        _check_filled(found[name], chosen)
    if not columns:
        return ByNames(feed, columns, notes)
    return ByNames(found if is_named else next(iter(found.values())), columns, notes)


def note_of_rows(x: Any, y: Any) -> Iterator[str]:
    """What is said of inputs and labels of pandas whose rows have the same names in another order.

    Pandas puts together what has the same name in the index; here rows go by their places.

    Args:
        x: an input, or inputs by name.
        y: a label, or labels by name.
    """
    given = [part for each in (x, y) for part in (each.values() if _is_named(each) else [each])]
    # A list has a method of that name.
    found: list[Any] = [getattr(each, "index", None) for each in given]
    indices = [each for each in found if hasattr(each, "equals")]
    others = [i for i in indices[1:] if not indices[0].equals(i) and len(i) == len(indices[0])]
    if any(not len(indices[0].symmetric_difference(other)) for other in others):
        yield (
            "data: rows that are fed together have the same index in another order; they go by "
            "their places: y.loc[x.index] puts labels into the order of the inputs"
        )


def _is_named(given: Any) -> bool:
    return isinstance(given, Mapping)


def _chosen(names: list[str], item: Argument, trained: Sequence[str], where: str) -> list[str]:
    """The columns of an input, in the order in which a step takes them."""
    check_once(names, where)
    if trained:
        return as_trained(names, trained, where)
    shape = item.spec.shape
    # Of others, such as rows of tokens, there may be several lengths.
    if item.place == Place(0) and len(shape) == _AXES and item.spec.dtype.startswith("float"):
        check_count(names, shape[1], item, where)
    return names


def _check_filled(frame: Any, names: Sequence[str]) -> None:
    """Checks that each cell has a value, which is a number.

    Raises:
        DataError: one has none; it would be trained or predicted as a NaN.
    """
    for number, name in enumerate(names):
        column = frame.iloc[:, number]
        empty = np.flatnonzero(np.asarray(column.isna()))
        if empty.size:
            raise empty_cells(name, int(empty[0]), empty.size, len(frame), called(frame))
        if not is_numbers(column):
            row, cell = next(
                ((n, e) for n, e in enumerate(column, 1) if not isinstance(e, Number)),
                (1, column.iloc[0]),
            )
            said = f", such as {printable(shortened(repr(cell)))} in row {row}"
            raise no_numbers(frame, name, called(frame), said)
