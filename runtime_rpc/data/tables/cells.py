"""The cells of a column as an array, or what is wrong with the first of them that is none."""

from typing import TYPE_CHECKING

import numpy as np

from odtc.core.errors import DataError
from odtc.core.printable import printable
from odtc.runtime_rpc.data.names import told
from odtc.runtime_rpc.feed.arrays import THE_FRAME

if TYPE_CHECKING:
    from pyarrow import ChunkedArray, DataType, Table

_IMAGES = (
    "each cell is a number, or a list of numbers; images that Hugging Face stores in a column are "
    "files in a folder for each class here: dataset[n]['image'].save(FILE)"
)
# Of a cell that is shown.
_LONGEST = 40


def _fill(where: str) -> str:
    as_pandas = ", as DataFrame.dropna() does" if where == THE_FRAME else ""
    return f"fill empty cells or leave their rows out{as_pandas}"


def _numbers(where: str) -> str:
    return f"each cell is a number: {_fill(where)}; give words numbers, or leave the column out"


def shortened(text: str) -> str:
    """The first of a cell's text."""
    return text[:_LONGEST] + "…" * (len(text) > _LONGEST)


def is_text(kind: "DataType") -> bool:
    """Whether a column of a type holds words, each of which may be the name of a class."""
    from pyarrow import types

    if types.is_dictionary(kind):
        return is_text(kind.value_type)
    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)


def is_list(kind: "DataType") -> bool:
    """Whether each cell of a column of a type holds several values."""
    from pyarrow import types

    return types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)


def value_type(kind: "DataType") -> "DataType":
    """The type of the values in a column of a type, in its cells or in their lists."""
    return value_type(kind.value_type) if is_list(kind) else kind


def check_type(name: str, kind: "DataType", where: str, *, may_be_text: bool) -> None:
    """Checks that a column has numbers, before it is read: a text may be as long as it likes.

    Raises:
        DataError: it has others.
    """
    from pyarrow import types

    held = value_type(kind)
    if types.is_integer(held) or types.is_floating(held) or types.is_boolean(held):
        return
    if may_be_text and is_text(kind):
        return
    raise DataError(
        f"the column {told(name)} has cells of type {kind}",
        where=where,
        hint=_IMAGES if types.is_struct(held) or types.is_binary(held) else _numbers(where),
    )


def cells_of(table: "Table", name: str, where: str, *, may_be_text: bool) -> np.ndarray:
    """A column as numbers; of words, as these, where that is allowed.

    Raises:
        DataError: a cell is empty, or no number.
    """
    column = table.column(name)
    if is_text(column.type):
        if not may_be_text:
            raise _not_a_number(column, name, where)
        # A line of CSV has no empty words: those are cells without one.
        words = np.array([str(word or "").strip() for word in column.to_pylist()])
        if empty := np.flatnonzero(words == "").tolist():
            raise empty_cells(name, empty[0], len(empty), len(words), where)
        return words
    if column.null_count:
        first = column.is_null().to_numpy().argmax()
        raise empty_cells(name, int(first), column.null_count, len(column), where)
    kept = column.to_numpy()
    if kept.dtype.kind not in "biuf":
        raise DataError(
            f"the column {told(name)} has cells of type {column.type}",
            where=where,
            hint=_numbers(where),
        )
    return kept


def lists_of(column: "ChunkedArray", name: str, where: str) -> np.ndarray:
    """The numbers of a column of lists, [rows, numbers of each].

    Raises:
        DataError: a cell is empty, or the lists are not all as long.
    """
    from pyarrow import compute

    check_type(name, column.type, where, may_be_text=False)
    held = column.combine_chunks()
    while is_list(held.type):
        sizes = compute.min_max(compute.list_value_length(held)).as_py()
        if held.null_count or sizes["min"] != sizes["max"]:
            raise DataError(
                f"the lists of the column {told(name)} have {sizes['min']} to {sizes['max']} "
                f"values, and {held.null_count} are missing",
                where=where,
                hint="give each sample the same number",
            )
        held = held.flatten()
    if held.null_count:
        first = int(held.is_null().to_numpy(zero_copy_only=False).argmax())
        row = first * len(column) // len(held)
        raise empty_cells(name, row, held.null_count, len(held), where)
    return held.to_numpy(zero_copy_only=False).reshape(len(column), len(held) // len(column))


def empty_cells(name: str, first: int, count: int, cells: int, where: str) -> DataError:
    """The error of a column with cells that have no number.

    Args:
        name: of it.
        first: the first such row, from 0.
        count: of such rows.
        cells: of all rows.
        where: it is, for the message.
    """
    return DataError(
        f"{count} of {cells} cells of the column {told(name)} are empty or not a number, the "
        f"first in row {first + 1}",
        where=where,
        hint=f"rows are counted from 1, after the names; {_fill(where)}",
    )


def _not_a_number(column: "ChunkedArray", name: str, where: str) -> DataError:
    """The error of a column of words, which shows the first of them."""
    wrong = [(row, text) for row, text in enumerate(column.to_pylist(), 1) if not _is_number(text)]
    row, text = wrong[0] if wrong else (1, column[0].as_py())
    cell = printable(repr(shortened(text))) if text else "empty"
    return DataError(
        f"{max(len(wrong), 1)} of {len(column)} cells of the column {told(name)} are not "
        f"numbers, the first in row {row}: {cell}",
        where=where,
        hint=f"rows are counted from 1, after the names; {_numbers(where)}",
    )


def _is_number(text: str | None) -> bool:
    try:
        float(text or "")
    except ValueError:
        return False
    return True
