"""Problems and plans as tables: the CSV of MiniMalloc, with the columns that odtc knows."""

import csv
import os
import re
from collections.abc import Iterator, Sequence
from typing import TextIO

from odtc.core.disk.files import atomic_write
from odtc.core.errors import DataError
from odtc.passes.memory.packing.problem import Buffer, PackingSolution, fault_of

_NEEDED = ("id", "lower", "upper", "size")
_OPTIONAL = {"alignment": "1"}
_NUMBER = re.compile(r"[0-9]{1,18}")
_HINT = (
    "write a header with id,lower,upper,size and optionally alignment, then a row for each buffer"
)


def read_buffers(path: str | os.PathLike[str]) -> list[Buffer]:
    """Reads buffers, of alignment 1 where there is no such column.

    Raises:
        DataError: the file cannot be read, or a row is wrong; it names the line and the column.
    """
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            return list(_buffers(file, str(path)))
    except OSError as error:
        raise DataError(
            f"the table cannot be read: {error.strerror or error}",
            where=str(path),
            hint="check the path",
        ) from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(
            f"the file is not a CSV file: {error}", where=str(path), hint=_HINT
        ) from error


def _buffers(file: TextIO, path: str) -> Iterator[Buffer]:
    rows = csv.reader(file, strict=True)
    header = next(rows, [])
    _check_header(header, path)
    seen: dict[str, int] = {}
    for row in rows:
        if not row:
            continue
        where = f"{path}, line {rows.line_num}"
        if len(row) != len(header):
            raise DataError(
                f"the row has {len(row)} columns; the header has {len(header)}",
                where=where,
                hint=_HINT,
            )
        buffer = _buffer(dict(zip(header, row, strict=True)), where)
        if buffer.id in seen:
            raise DataError(
                f"the id {buffer.id!r} was given on line {seen[buffer.id]}",
                where=f"{where}, column id",
                hint="give each buffer an id of its own",
            )
        seen[buffer.id] = rows.line_num
        yield buffer


def _check_header(header: Sequence[str], path: str) -> None:
    """Checks that every needed column is there once, and no unknown one."""
    where = f"{path}, line 1"
    for name in header:
        if name not in (*_NEEDED, *_OPTIONAL):
            raise DataError(f"odtc does not know the column {name!r}", where=where, hint=_HINT)
        if header.count(name) > 1:
            raise DataError(f"the column {name!r} appears twice", where=where, hint=_HINT)
    for name in _NEEDED:
        if name not in header:
            raise DataError(f"the column {name!r} is missing", where=where, hint=_HINT)


def _buffer(cells: dict[str, str], where: str) -> Buffer:
    numbers = {}
    for name in (*_NEEDED[1:], *_OPTIONAL):
        text = cells.get(name, _OPTIONAL.get(name, "")).strip()
        if not _NUMBER.fullmatch(text):
            raise DataError(
                f"{text!r} is not a whole number of at least 0",
                where=f"{where}, column {name}",
                hint="write it in decimal digits",
            )
        numbers[name] = int(text)
    buffer = Buffer(cells["id"], **numbers)
    fault = fault_of(buffer)
    if fault:
        raise DataError(
            f"{fault.field} {fault.what}",
            where=f"{where}, column {fault.field}",
            hint="a buffer is alive from lower until just before upper, all below 2**40",
        )
    return buffer


def write_plan(
    path: str | os.PathLike[str], buffers: Sequence[Buffer], solution: PackingSolution
) -> None:
    """Writes buffers with their offsets, all of the file or nothing.

    Raises:
        OutputError: it cannot be written.
    """
    aligned = ["alignment"] if any(buffer.alignment != 1 for buffer in buffers) else []
    columns = [*_NEEDED, *aligned]
    with atomic_write(path) as temporary, open(temporary, "w", encoding="utf-8", newline="") as f:
        writer = csv.writer(f, lineterminator="\n")
        writer.writerow([*columns, "offset"])
        for buffer in buffers:
            values = [getattr(buffer, column) for column in columns]
            writer.writerow([*values, solution.offsets[buffer.id]])
