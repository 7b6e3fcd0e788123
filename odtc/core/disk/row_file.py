"""Rows in a file of JSON lines: work that was interrupted goes on after the last of them.

Users send such files: they are written as `sendable` says.
"""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from odtc.core.disk.sendable import sendable
from odtc.core.errors import DataError, OutputError, UsageError


class AsDict(Protocol):
    """A row that a file can keep."""

    def to_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        ...


Row = TypeVar("Row", bound=AsDict)
# What a line that is no row ends in.
_WRONG = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)


def parse_rows(
    text: str, kind: str, read: Callable[[Mapping[str, Any]], Row]
) -> tuple[Mapping[str, Any], list[Row]]:
    """The identity and the rows of a file.

    Args:
        text: of the file, of whole lines.
        kind: what the rows are of.
        read: makes a row of what its `to_dict` gave.

    Raises:
        ValueError: it is no such file.
    """
    rows: list[Row] = []
    head: Mapping[str, Any] | None = None
    # Texts of JSON may have the other ends of lines that Unicode knows.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            data = json.loads(line)
            if head is None:
                head = data[kind]
            else:
                rows.append(read(data))
        except _WRONG as error:
            what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            raise ValueError(f"line {number} of a {kind}: {what}") from error
    if head is None:
        raise ValueError(f"no line of a {kind}")
    return head, rows


class RowFile(Generic[Row]):
    """A file whose first line says what its rows are of; each other is a row.

    Args:
        path: of the file; it is made where there is none.
        kind: what the rows are of, such as `sweep`.
        identity: of the work, as JSON has it.
        read: makes a row of what its `to_dict` gave.

    Attributes:
        rows: all that it holds.

    Raises:
        UsageError: the file is of other work of this kind.
        DataError: it is none of this kind.
        OutputError: it cannot be read or written.
    """

    def __init__(
        self,
        path: Path,
        kind: str,
        identity: Mapping[str, Any],
        read: Callable[[Mapping[str, Any]], Row],
    ) -> None:
        self._path, self._kind, self._parse = path, kind, read
        self.rows: list[Row] = []
        identity = sendable(identity)
        try:
            text = path.read_bytes().decode("utf-8", "replace") if path.exists() else ""
        except OSError as error:
            raise self._failed(error) from error
        # What was cut off while it was written is measured again.
        whole = text[: text.rfind("\n") + 1]
        begins = f"{{{json.dumps(kind)}: "
        if whole:
            self._read(whole, identity)
        elif not (text.startswith(begins) or begins.startswith(text)):
            raise self._other()
        if whole != text or not whole:
            head = whole or f"{json.dumps({kind: identity})}\n"
            self._write(head, "w")

    def add(self, *rows: Row) -> None:
        """Writes rows at once, so that they are there whatever comes.

        Raises:
            OutputError: they cannot be written.
        """
        self._write("".join(f"{json.dumps(sendable(row.to_dict()))}\n" for row in rows), "a")
        self.rows.extend(rows)

    def _read(self, text: str, identity: Mapping[str, Any]) -> None:
        try:
            found, self.rows = parse_rows(text, self._kind, self._parse)
        except ValueError as error:
            raise self._other() from error
        differing = [key for key in identity if found.get(key) != identity[key]]
        if differing:
            raise UsageError(
                f"the file is from another {self._kind}: {', '.join(differing)}",
                where=str(self._path),
                hint="name another one with --output, or remove it to measure all again",
            )

    def _write(self, text: str, mode: str) -> None:
        try:
            with self._path.open(mode, encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise self._failed(error) from error

    def _other(self) -> DataError:
        return DataError(
            f"the file is not from a {self._kind}",
            where=str(self._path),
            hint="name another one with --output",
        )

    def _failed(self, error: OSError) -> OutputError:
        return OutputError(
            f"the rows cannot be saved: {error.strerror or error}",
            where=str(self._path),
            hint="name another file with --output",
        )
