"""Samples of tables: CSV and Parquet, a sample a row."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from odtc.core.disk.files import not_a_file
from odtc.core.errors import DataError
from odtc.core.printable import printable
from odtc.core.process.missing_packages import require_packages
from odtc.core.specs import Argument
from odtc.runtime_rpc.data.samples import Samples, samples_in
from odtc.runtime_rpc.data.wanted import Wanted

if TYPE_CHECKING:
    from pyarrow import Table

_LABELS = ("y", "target", "label")
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
    _check(path)
    from pyarrow import ArrowInvalid, csv

    separator = "\t" if path.suffix.lower() == ".tsv" else ","
    try:
        table = csv.read_csv(path, parse_options=csv.ParseOptions(delimiter=separator))
    except (ArrowInvalid, OSError) as error:
        raise _unreadable(path, "CSV", error) from error
    return _samples(table, path, wanted)


def read_parquet(path: Path, wanted: Wanted) -> Samples:
    """The samples of a Parquet file.

    Raises:
        DataError: it is missing or damaged, or does not fit the step.
        MissingPackageError: pyarrow is not installed.
    """
    _check(path)
    from pyarrow import ArrowException, parquet

    try:
        table = parquet.read_table(path)
    except (ArrowException, OSError) as error:
        raise _unreadable(path, "Parquet", error) from error
    return _samples(table, path, wanted)


def _check(path: Path) -> None:
    if not path.is_file():
        raise DataError(f"the data file {not_a_file(path)}", where=str(path), hint="check the path")
    require_packages("pyarrow")


def _unreadable(path: Path, what: str, error: Exception) -> DataError:
    said = str(error).splitlines()[0]
    return DataError(f"not a readable {what} file ({said})", where=str(path), hint=_COLUMNS)


def _samples(table: "Table", path: Path, wanted: Wanted) -> Samples:
    inputs, labels = wanted.inputs, wanted.labels
    names: list[str] = [*table.column_names]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise DataError(
            f"the column {printable(twice)} is there twice", where=str(path), hint=_COLUMNS
        )
    columns = {item.spec.name: _of_label(names, item, len(labels)) for item in labels}
    taken = {name for each in columns.values() for name in each}
    if len(inputs) == 1 and inputs[0].spec.name not in names:
        columns[inputs[0].spec.name] = [name for name in names if name not in taken]
    else:
        columns |= {i.spec.name: [i.spec.name] for i in inputs if i.spec.name in names}
    arrays = {
        item.spec.name: _array(table, columns[item.spec.name], item, path)
        for item in (*inputs, *labels)
        if columns.get(item.spec.name)
    }
    used = {name for each in columns.values() for name in each}
    # Those that were used have the names of arguments here, which are not the columns' own.
    rest = [name for name in names if name not in used]
    return samples_in(arrays, [*arrays, *rest], inputs, labels, str(path))


def _of_label(names: Sequence[str], item: Argument, labels: int) -> list[str]:
    """The columns of a label: of its name, or where it is the only one of a usual name."""
    for own in (item.spec.name, *(_LABELS if labels == 1 else ())):
        if own in names:
            return [own]
        found = [name for name in names if re.fullmatch(rf"{re.escape(own)}[_.]?\d+", name)]
        if found:
            return found
    return []


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
    kind = item.spec.dtype if found.dtype.kind == np.dtype(item.spec.dtype).kind else found.dtype
    return np.ascontiguousarray(np.moveaxis(shaped, 0, axis)).astype(kind)


def _column(table: "Table", name: str, path: Path) -> np.ndarray:
    column = table.column(name)
    kept = column.to_numpy()
    if column.null_count or kept.dtype.kind not in "biuf":
        what = f"{column.null_count} empty cells" if column.null_count else f"{column.type}"
        raise DataError(
            f"the column {printable(name)} has {what}, and no numbers alone",
            where=str(path),
            hint="fill empty cells, and give classes their numbers, from 0",
        )
    return kept
