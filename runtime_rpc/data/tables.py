"""Samples of tables: CSV and Parquet, a sample a row."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from odtc.core.disk.files import check_the_path, not_a_file
from odtc.core.errors import DataError
from odtc.core.printable import printable
from odtc.core.process.missing_packages import require_packages
from odtc.core.specs import Argument
from odtc.runtime_rpc.data.parquet_pages import check_pages
from odtc.runtime_rpc.data.samples import LABELS, Samples, samples_in
from odtc.runtime_rpc.data.wanted import Wanted
from odtc.runtime_rpc.feed.arrays import cast
from odtc.runtime_rpc.free_memory import available_bytes

if TYPE_CHECKING:
    from pyarrow import DataType, Table

_COLUMNS = (
    "name the column of the label as the label or y, of several numbers as y0, y1 and so on; all "
    "others are the input, in their order, or each is the input of its name"
)


def read_csv(path: Path, wanted: Wanted) -> Samples:
    """The samples of a file with a line of names, and a sample in each other line.

    Raises:
        DataError: it is missing or malformed, or does not fit the step.
        MissingPackageError: pyarrow is not installed.
    """
    table = _csv_table(path)
    names = table.column_names
    return _samples(table, names, _chosen(names, wanted, path), wanted, path)


def features_of(path: Path) -> np.ndarray:
    """The columns of a table that no label is usually called as, [rows, columns] of float64.

    Raises:
        DataError: it is missing or malformed, or has no such column.
        MissingPackageError: pyarrow is not installed.
    """
    if path.suffix.lower() == ".parquet":
        table = _parquet_table(path, _features)
    else:
        table = _csv_table(path)
    found = [
        _column(table, name, path).astype(np.float64) for name in _features(table.column_names)
    ]
    if not found or not table.num_rows:
        raise DataError("the table has no features, or no rows", where=str(path), hint=_COLUMNS)
    return np.stack(found, axis=1)


def _features(names: Sequence[str]) -> list[str]:
    labels = {each for label in LABELS for each in _called(label, names)}
    return [name for name in names if name not in labels]


def _csv_table(path: Path) -> "Table":
    _check(path)
    from pyarrow import ArrowInvalid, csv

    separator = "\t" if path.suffix.lower() == ".tsv" else ","
    try:
        table = csv.read_csv(path, parse_options=csv.ParseOptions(delimiter=separator))
    except (ArrowInvalid, OSError) as error:
        raise _unreadable(path, "CSV", error) from error
    first = table.column_names[0] if table.num_columns == 1 else ""
    if other := next((each for each in ";\t|" if each in first), None):
        raise DataError(
            f"the first line has one name, with {other!r} in it, and no {separator!r}",
            where=str(path),
            hint="separate the columns by commas, in a .tsv file by tabs",
        )
    return table


def read_parquet(path: Path, wanted: Wanted) -> Samples:
    """The samples of a Parquet file.

    Raises:
        DataError: it is missing or damaged, or does not fit the step.
        MissingPackageError: pyarrow is not installed.
    """
    chosen: dict[str, list[str]] = {}
    names: list[str] = []

    def choose(found: Sequence[str]) -> list[str]:
        names.extend(found)
        chosen.update(_chosen(found, wanted, path))
        return [name for each in chosen.values() for name in each]

    table = _parquet_table(path, choose)
    return _samples(table, names, chosen, wanted, path)


def _parquet_table(path: Path, choose: Callable[[Sequence[str]], Sequence[str]]) -> "Table":
    """The columns that are chosen of the names of all."""
    _check(path)
    from pyarrow import ArrowException, parquet

    try:
        with parquet.ParquetFile(path) as file:
            schema = file.schema_arrow
            used = [schema.field(name) for name in choose(schema.names)]
            for field in used:
                _check_type(field.name, field.type, path)
            _check_memory(file.metadata.num_rows, [each.type for each in used], path)
            check_pages(path, file.metadata, {each.name for each in used})
            return file.read([each.name for each in used])
    except (ArrowException, OSError) as error:
        raise _unreadable(path, "Parquet", error) from error


def _check(path: Path) -> None:
    if not path.is_file():
        raise DataError(
            f"the data file {not_a_file(path)}", where=str(path), hint=check_the_path(path)
        )
    require_packages("pyarrow")


def _unreadable(path: Path, what: str, error: Exception) -> DataError:
    said = str(error).splitlines()[0]
    return DataError(f"not a readable {what} file ({said})", where=str(path), hint=_COLUMNS)


def _check_type(name: str, kind: "DataType", path: Path) -> None:
    """Checks that a column has numbers, before it is read: a text may be as long as it likes.

    Raises:
        DataError: it has others.
    """
    from pyarrow import types

    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        return
    raise _no_numbers(name, f"cells of type {kind}", path)


def _no_numbers(name: str, what: str, path: Path) -> DataError:
    return DataError(
        f"the column {printable(name)} has {what}; each cell is a number",
        where=str(path),
        hint="fill empty cells, and give classes their numbers, from 0",
    )


def _check_memory(rows: int, types: "Sequence[DataType]", path: Path) -> None:
    """Checks what a small file may become: a column of one number takes some bytes there.

    Raises:
        DataError: it is more than this machine has left.
    """
    sizes = [max(each.bit_width // 8, 1) for each in types]
    # The columns, and beside them the array that they become.
    size = rows * (sum(sizes) + len(sizes) * max(sizes, default=0))
    try:
        left = available_bytes()
    except OSError:
        # A system that does not say it.
        return
    if size > left:
        raise DataError(
            f"{rows} rows of {len(sizes)} columns take {size >> 20} MiB; {left >> 20} MiB of "
            "memory are left",
            where=str(path),
            hint="save the columns as arrays, as x.npy and y.npy of a folder: these stay in their "
            "files",
        )


def _chosen(names: Sequence[str], wanted: Wanted, path: Path) -> dict[str, list[str]]:
    """The columns of each input and label that has some.

    Raises:
        DataError: a name is there twice, or nothing shows which column is the label.
    """
    inputs, labels = wanted.inputs, wanted.labels
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise DataError(
            f"the column {printable(twice)} is there twice", where=str(path), hint=_COLUMNS
        )
    columns = {item.spec.name: _of_label(names, item, len(labels), path) for item in labels}
    taken = {name for each in columns.values() for name in each}
    if len(inputs) == 1 and inputs[0].spec.name not in names:
        columns[inputs[0].spec.name] = [name for name in names if name not in taken]
    else:
        columns |= {i.spec.name: [i.spec.name] for i in inputs if i.spec.name in names}
    return {name: each for name, each in columns.items() if each}


def _samples(
    table: "Table",
    names: Sequence[str],
    chosen: Mapping[str, Sequence[str]],
    wanted: Wanted,
    path: Path,
) -> Samples:
    if not table.num_rows:
        raise DataError("the table has no rows", where=str(path), hint="give each sample a row")
    arrays = {
        item.spec.name: _array(table, chosen[item.spec.name], item, path)
        for item in (*wanted.inputs, *wanted.labels)
        if item.spec.name in chosen
    }
    used = {name for each in chosen.values() for name in each}
    # Those that were used have the names of arguments here, which are not the columns' own.
    rest = [name for name in names if name not in used]
    found = samples_in(arrays, [*arrays, *rest], wanted.inputs, wanted.labels, str(path))
    return replace(found, column_names={name: tuple(chosen[name]) for name in found.inputs})


def _of_label(names: Sequence[str], item: Argument, labels: int, path: Path) -> list[str]:
    """The columns of a label: of its name, or where it is the only one of a usual name.

    Raises:
        DataError: there are several of a usual name, and nothing shows which of them it is.
    """
    if own := _called(item.spec.name, names):
        return own
    usual = [found for each in LABELS if labels == 1 and (found := _called(each, names))]
    if len(usual) > 1:
        said = " or ".join(printable(", ".join(each)) for each in usual)
        raise DataError(
            f"the label may be {said}",
            where=str(path),
            hint=f"name the label's column {printable(item.spec.name)}; several numbers, "
            f"{printable(item.spec.name)}0 and so on",
        )
    return usual[0] if usual else []


def _called(name: str, names: Sequence[str]) -> list[str]:
    """The column of a name, or those of the name with numbers, in the order of these."""
    if name in names:
        return [name]
    numbered = {each: re.fullmatch(rf"{re.escape(name)}[_.]?(\d+)", each) for each in names}
    found = {each: int(match[1]) for each, match in numbered.items() if match}
    return sorted(found, key=found.__getitem__)


def _array(table: "Table", names: Sequence[str], item: Argument, path: Path) -> np.ndarray:
    """Columns as the array of an argument."""
    found = np.stack([_column(table, name, path) for name in names], axis=1)
    at = item.place.axis if item.place else None
    sample = [size for axis, size in enumerate(item.spec.shape) if axis != at]
    size = int(np.prod(sample))
    if found.shape[1] != size:
        raise DataError(
            f"{printable(item.spec.name)} has {found.shape[1]} columns; the step takes "
            f"{size} numbers a sample",
            where=str(path),
            hint=_COLUMNS,
        )
    axis = item.place.axis if item.place else 0
    shaped = found.reshape(found.shape[0], *sample)
    array = np.ascontiguousarray(np.moveaxis(shaped, 0, axis))
    # Class numbers are checked as they are, before they are cast.
    same_kind = array.dtype.kind == np.dtype(item.spec.dtype).kind and item.classes is None
    return (
        cast(array, item.spec.dtype, f"{path}: {printable(item.spec.name)}") if same_kind else array
    )


def _column(table: "Table", name: str, path: Path) -> np.ndarray:
    column = table.column(name)
    kept = column.to_numpy()
    if column.null_count or kept.dtype.kind not in "biuf":
        what = f"cells of type {column.type}"
        if column.null_count:
            what = f"{column.null_count} cells that are empty or no number"
        raise _no_numbers(name, what, path)
    return kept
