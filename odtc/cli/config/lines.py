"""The line of an options file at which each is given: tomllib does not tell it.

A file that is TOML as a whole is cut into its statements, each the fewest lines that are TOML for
themselves: `[table]`, `key = value`, or a value over several lines.
"""

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

Keys = tuple[str, ...]

# Of one statement; a longer one has no line.
_MOST_LINES = 200


def lines_of(text: str) -> dict[Keys, int]:
    """The line (from 1) of each table and key, by its path from the root of the file."""
    found: dict[Keys, int] = {}
    table: Keys = ()
    for number, keys, is_table in _statements(text.replace("\r\n", "\n").split("\n")):
        if is_table:
            table = keys
        path = keys if is_table else (*table, *keys)
        for length in range(1, len(path) + 1):
            found.setdefault(path[:length], number)
        if not is_table:
            found[path] = number
    return found


def _statements(lines: list[str]) -> Iterator[tuple[int, Keys, bool]]:
    """The number of the first line, the keys, and whether it begins a table, of each statement."""
    at = 0
    while at < len(lines):
        parsed, taken = _first(lines[at : at + _MOST_LINES])
        is_table = lines[at].lstrip().startswith("[")
        for keys in _paths(parsed, inside=is_table):
            yield at + 1, keys, is_table
        at += taken


def _first(lines: list[str]) -> tuple[Mapping[str, Any], int]:
    """The first statement of some lines, and how many it takes."""
    for count in range(1, len(lines) + 1):
        try:
            return tomllib.loads("\n".join(lines[:count])), count
        except (tomllib.TOMLDecodeError, RecursionError):
            continue
    return {}, 1


def _paths(parsed: Mapping[str, Any], *, inside: bool) -> Iterator[Keys]:
    """The one path that a statement names, and those of keys within an inline table."""
    for key, value in parsed.items():
        below = value[0] if isinstance(value, list) and inside else value
        if not isinstance(below, dict) or not below:
            yield (key,)
            continue
        if not inside:
            yield (key,)
        for rest in _paths(below, inside=inside):
            yield (key, *rest)
