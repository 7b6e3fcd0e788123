"""What the first line of a file of rows has to say, for a page to be made of it."""

import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

from odtc.comparison.measures.values import KIND as VALUES
from odtc.comparison.row import KIND

_NUMBER = (int, float)
# Of each kind of rows: what its first line has, and of which types.
_FIELDS: Mapping[str, Mapping[str, type | tuple[type, ...]]] = {
    KIND: {"machine": dict, "versions": dict, "steps": int, "memory_limit": (*_NUMBER, type(None))},
    VALUES: {"suite": dict, "target": str, "emulated": bool, "versions": dict},
}
# What it may have, too.
_MORE: Mapping[str, type] = {"suite": dict, "commit": str}
_PUBLISHED = {"title": str, "source": str, "heads": list, "rows": list}


def check_head(head: Any, kind: str) -> None:
    """Checks the types of all that pages show of a first line.

    Raises:
        ValueError: something lacks, or is of another type.
    """
    _check(head, _FIELDS[kind])
    _check(head, {name: of for name, of in _MORE.items() if name in head})
    for words in (head.get("machine", {}), head["versions"]):
        _check_cells(list(words.values()))
    suite = head.get("suite", {})
    _check(suite, {"title": str} if kind == VALUES or "title" in suite else {})
    if kind == VALUES:
        _check(head["versions"], {"odtc": str})
    tables = suite.get("published", [])
    _check({"published": tables}, {"published": list})
    for each in tables:
        _check(each, _PUBLISHED)
        for row in (each["heads"], *each["rows"]):
            _check_cells(row)
            if len(row) != len(each["heads"]):
                raise ValueError(f"a row of {len(row)} cells below {len(each['heads'])} heads")


def _check(said: Any, fields: Mapping[str, type | tuple[type, ...]]) -> None:
    if not isinstance(said, dict):
        raise ValueError(f"{reprlib.repr(said)} is no object")
    for name, of in fields.items():
        if name not in said or not isinstance(said[name], of):
            raise ValueError(f"{name} is {reprlib.repr(said.get(name))}")


def _check_cells(cells: Sequence[Any]) -> None:
    if not isinstance(cells, list) or not all(isinstance(each, (str, *_NUMBER)) for each in cells):
        raise ValueError(f"{reprlib.repr(cells)} are not words and numbers")
