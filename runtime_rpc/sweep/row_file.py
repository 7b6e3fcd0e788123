"""Rows in a file of JSON lines: a sweep that was interrupted goes on behind the last of them."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from odtc.core.errors import DataError, OutputError, UsageError
from odtc.runtime_rpc.sweep.row import Row, row_of

_HEAD = "sweep"


class RowFile:
    """A file whose first line says of which sweep it is; each other is a row.

    Args:
        path: of the file; it is made where there is none.
        identity: of the sweep, as JSON has it.

    Attributes:
        rows: all that it holds.

    Raises:
        UsageError: the file is of another sweep.
        DataError: it is none of a sweep.
        OutputError: it cannot be read or written.
    """

    def __init__(self, path: Path, identity: Mapping[str, Any]) -> None:
        self._path = path
        self.rows: list[Row] = []
        try:
            text = path.read_bytes().decode("utf-8", "replace") if path.exists() else ""
        except OSError as error:
            raise self._failed(error) from error
        # What was cut off while it was written is measured again.
        whole = text[: text.rfind("\n") + 1]
        if whole:
            self._read(whole, identity)
        if whole != text or not whole:
            head = whole or f"{json.dumps({_HEAD: identity})}\n"
            self._write(head, "w")

    def add(self, row: Row) -> None:
        """Writes a row, so that it is there whatever comes.

        Raises:
            OutputError: it cannot be written.
        """
        self._write(f"{json.dumps(row.to_dict())}\n", "a")
        self.rows.append(row)

    def _read(self, text: str, identity: Mapping[str, Any]) -> None:
        try:
            head, *lines = map(json.loads, text.splitlines())
            found = head[_HEAD]
            self.rows = [row_of(line) for line in lines]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(
                "the file is none of a sweep",
                where=str(self._path),
                hint="name another one with --output",
            ) from error
        differing = [key for key in identity if found.get(key) != identity[key]]
        if differing:
            raise UsageError(
                f"the file is of another sweep: {', '.join(differing)}",
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

    def _failed(self, error: OSError) -> OutputError:
        return OutputError(
            f"the rows cannot be kept: {error.strerror or error}",
            where=str(self._path),
            hint="name another file with --output",
        )
