"""Samples of tables, a sample a row."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from odtc.core.errors import DataError
from odtc.core.printable import printable
from odtc.core.process.missing_packages import require_packages
from odtc.core.specs import Argument
from odtc.runtime_rpc.data.names import listed
from odtc.runtime_rpc.data.samples import Samples, samples_in
from odtc.runtime_rpc.data.tables.cells import cells_of, is_list, lists_of
from odtc.runtime_rpc.data.tables.columns import (
    COLUMNS,
    check_count,
    check_once,
    chosen_columns,
    feature_columns,
    features_in,
)
from odtc.runtime_rpc.data.tables.csv_files import csv_table, not_utf8
from odtc.runtime_rpc.data.tables.parquet_files import parquet_table
from odtc.runtime_rpc.data.wanted import Wanted
from odtc.runtime_rpc.feed.arrays import called, cast

if TYPE_CHECKING:
    from pyarrow import Schema, Table


def read_csv(path: Path, wanted: Wanted) -> Samples:
    """The samples of a file with a line of names, and a sample in each other line.

    Raises:
        DataError: it is missing or malformed, or does not fit the step.
        MissingPackageError: pyarrow is not installed.
    """
    from pyarrow import types

    table = csv_table(path)
    names = table.column_names
    chosen = chosen_columns(names, wanted, str(path))
    used = [table.column(name) for each in chosen.values() for name in each]
    if any(types.is_binary(column.type) for column in used):
        raise not_utf8(path)
    return _samples(table, names, chosen, wanted, str(path))


def read_parquet(path: Path, wanted: Wanted) -> Samples:
    """The samples of a Parquet file.

    Raises:
        DataError: it is missing or damaged, or does not fit the step.
        MissingPackageError: pyarrow is not installed.
    """
    chosen: dict[str, list[str]] = {}
    names: list[str] = []
    words: list[str] = []
    indices: list[str] = []

    def choose(schema: "Schema") -> list[str]:
        names.extend(schema.names)
        chosen.update(chosen_columns(schema.names, wanted, str(path), _lists(schema)))
        words.extend(_of_classes(chosen, wanted))
        indices.extend(_index_in(schema))
        return [name for each in chosen.values() for name in each]

    table = parquet_table(path, choose, words)
    found = _samples(table, names, chosen, wanted, str(path))
    fed = [name for item in found.inputs for name in chosen.get(item, ()) if name in indices]
    # Columns that were trained are what is meant.
    if not fed or wanted.columns:
        return found
    note = (
        f"{path}: the index of a DataFrame ({listed(fed)}) is read as an input, as any other "
        "column; DataFrame.to_parquet(index=False) leaves it out"
    )
    return replace(found, notes=(note, *found.notes))


def read_frame(frame: Any, wanted: Wanted) -> Samples:
    """The samples of a DataFrame of pandas, a row each; its index is none of the columns.

    Raises:
        DataError: it does not fit the step.
        MissingPackageError: pyarrow is not installed.
    """
    require_packages("pyarrow")
    import pyarrow as pa

    where = called(frame)
    check_once([*map(str, frame.columns)], where)
    try:
        named = _dense(frame.rename(columns=str))
        table = pa.Table.from_pandas(named, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError) as error:
        said = "; ".join(str(each).partition("\n")[0] for each in error.args)
        raise DataError(f"not a table of numbers ({said})", where=where, hint=COLUMNS) from error
    names = table.column_names
    chosen = chosen_columns(names, wanted, where, _lists(table.schema))
    return _samples(table, names, chosen, wanted, where)


def _index_in(schema: "Schema") -> list[str]:
    """The columns of a file of pandas that were the index of a DataFrame."""
    try:
        said = json.loads((schema.metadata or {})[b"pandas"])["index_columns"]
    except (KeyError, TypeError, ValueError):
        return []
    # One that only counts the rows is no column.
    return [each for each in said if isinstance(each, str)]


def _dense(frame: Any) -> Any:
    """The frame, its sparse columns as others, which Arrow does not have."""
    kinds = {n: d.subtype for n, d in frame.dtypes.items() if type(d).__name__ == "SparseDtype"}
    return frame.astype(kinds) if kinds else frame


def features_of(path: Path) -> dict[str, np.ndarray]:
    """The columns of a table that no label is usually called as, each [rows] of float64.

    Raises:
        DataError: it is missing or malformed, or has no such column.
        MissingPackageError: pyarrow is not installed.
    """
    is_parquet = path.suffix.lower() == ".parquet"
    table = parquet_table(path, _feature_names) if is_parquet else csv_table(path)
    found = {
        name: cells_of(table, name, str(path), may_be_text=False).astype(np.float64)
        for name in features_in(table.column_names, str(path))
    }
    if not found or not table.num_rows:
        raise DataError("the table has no features, or no rows", where=str(path), hint=COLUMNS)
    return found


def _feature_names(schema: "Schema") -> list[str]:
    return feature_columns(schema.names)


def _lists(schema: "Schema") -> list[str]:
    """The columns whose cells hold several values each."""
    return [field.name for field in schema if is_list(field.type)]


def _of_classes(chosen: Mapping[str, Sequence[str]], wanted: Wanted) -> list[str]:
    """The columns that are a class each, which may be called by a name."""
    classed = [chosen[item.spec.name] for item in wanted.read_labels if item.classes]
    return [columns[0] for columns in classed if len(columns) == 1]


def _samples(
    table: "Table",
    names: Sequence[str],
    chosen: Mapping[str, Sequence[str]],
    wanted: Wanted,
    where: str,
) -> Samples:
    if not table.num_rows:
        raise DataError("the table has no rows", where=where, hint="give each sample a row")
    words = _of_classes(chosen, wanted)
    arrays = {
        item.spec.name: _array(table, chosen[item.spec.name], item, words, where)
        for item in (*wanted.inputs, *wanted.read_labels)
        if item.spec.name in chosen
    }
    used = {name for each in chosen.values() for name in each}
    # Those that were used have the names of arguments here, which are not the columns' own.
    rest = [name for name in names if name not in used]
    found = samples_in(arrays, [*arrays, *rest], wanted, where)
    return replace(found, column_names={name: tuple(chosen[name]) for name in found.inputs})


def _array(
    table: "Table", names: Sequence[str], item: Argument, words: Sequence[str], where: str
) -> np.ndarray:
    """Columns as the array of an argument."""
    at = item.place.axis if item.place else None
    sample = [size for axis, size in enumerate(item.spec.shape) if axis != at]
    size = int(np.prod(sample))
    if len(names) == 1 and is_list(table.column(names[0]).type):
        found = lists_of(table.column(names[0]), names[0], where)
        if found.shape[1] != size:
            raise DataError(
                f"the column {printable(names[0])} has lists of {found.shape[1]} numbers; the step "
                f"takes {size} per sample",
                where=where,
                hint="give lists of that many numbers, or compile for their size",
            )
    else:
        check_count(names, size, item, where)
        columns = [cells_of(table, name, where, may_be_text=name in words) for name in names]
        found = np.stack(columns, axis=1)
    axis = item.place.axis if item.place else 0
    shaped = found.reshape(found.shape[0], *sample)
    array = np.ascontiguousarray(np.moveaxis(shaped, 0, axis))
    # Class numbers are checked as they are, before they are cast.
    same_kind = array.dtype.kind == np.dtype(item.spec.dtype).kind and item.classes is None
    return (
        cast(array, item.spec.dtype, f"{where}: {printable(item.spec.name)}")
        if same_kind
        else array
    )
