"""DataFrames that are fed as arrays: their columns are taken by their names, as those of files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from odtc.core.ir.place import Place
from odtc.core.specs import Argument
from odtc.runtime_rpc.data.names import listed
from odtc.runtime_rpc.data.tables.cells import empty_cells
from odtc.runtime_rpc.data.tables.columns import as_trained, check_count, check_once
from odtc.runtime_rpc.feed.arrays import is_frame

THE_FRAME = "the DataFrame"
_TABLES = ("pyarrow", "polars")
# Of a table: samples, and the numbers of each.
_AXES = 2


def framed(data: Any) -> Any:
    """A table of Arrow or polars as a DataFrame of pandas, whose columns have names; else the same.

    They need not be imported to know.
    """
    if type(data).__module__.partition(".")[0] not in _TABLES or not hasattr(data, "to_pandas"):
        return data
    found = data.to_pandas()
    return found if is_frame(found) else data


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
        chosen = _chosen(names, items[name], trained.get(name, ()))
        if others := [each for each in names if each not in chosen]:
            said = f"not read, as they are no input: {listed(others)}; the step takes"
            notes.append(f"{THE_FRAME}: {said} {listed(chosen)}")
        found[name] = frame.iloc[:, [names.index(each) for each in chosen]]
        columns[name] = tuple(chosen)
        _check_filled(found[name], chosen)
    if not columns:
        return ByNames(feed, columns, notes)
    return ByNames(found if is_named else next(iter(found.values())), columns, notes)


def _chosen(names: list[str], item: Argument, trained: Sequence[str]) -> list[str]:
    """The columns of an input, in the order in which a step takes them."""
    check_once(names, THE_FRAME)
    if trained:
        return as_trained(names, trained, THE_FRAME)
    shape = item.spec.shape
    # Of others, such as rows of tokens, there may be several lengths.
    if item.place == Place(0) and len(shape) == _AXES and item.spec.dtype.startswith("float"):
        check_count(names, shape[1], item, THE_FRAME)
    return names


def _check_filled(frame: Any, names: Sequence[str]) -> None:
    """Checks that each cell has a value.

    Raises:
        DataError: one has none; it would be trained or predicted as a NaN.
    """
    for number, name in enumerate(names):
        empty = np.flatnonzero(np.asarray(frame.iloc[:, number].isna()))
        if empty.size:
            raise empty_cells(name, int(empty[0]), empty.size, len(frame), THE_FRAME)
