"""What the first line of a file of rows has to say, for a page to be made of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from odtc.comparison.measures.values import KIND as VALUES
from odtc.comparison.row import KIND
from odtc.core.typed import typed

_Cell = str | int | float


@dataclass(frozen=True)
class _Published:
    """A table of published figures."""

    title: str
    source: str
    heads: tuple[str, ...]
    rows: tuple[tuple[_Cell, ...], ...]


@dataclass(frozen=True)
class _Suite:
    title: str = ""
    published: tuple[_Published, ...] = ()


@dataclass(frozen=True)
class _TitledSuite:
    title: str


@dataclass(frozen=True)
class _Head:
    """That of a comparison's rows."""

    machine: Mapping[str, _Cell]
    versions: Mapping[str, _Cell]
    steps: int
    memory_limit: float | None
    commit: str | None = None
    suite: _Suite = _Suite()


@dataclass(frozen=True)
class _Odtc:
    odtc: str


@dataclass(frozen=True)
class _ValuesHead:
    """That of values without times."""

    suite: _TitledSuite
    target: str
    emulated: bool
    versions: _Odtc
    commit: str | None = None


_OF = {KIND: _Head, VALUES: _ValuesHead}


def check_head(head: Any, kind: str) -> None:
    """Checks the types of all that pages show of a first line.

    Raises:
        ValueError: something lacks, or is of another type.
    """
    found = typed(_OF[kind], head)
    for table in found.suite.published if isinstance(found, _Head) else ():
        if not table.rows or any(len(row) != len(table.heads) for row in table.rows):
            raise ValueError(f"{table.title}: no rows, or not as long as {len(table.heads)} heads")
