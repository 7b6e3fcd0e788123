"""Names that other libraries have, and what is said of them.

A name that is nearly one of odtc's own may mean something else, as `shuffle` and `schedule`: what
is in a table of these rows counts before what is near.
"""

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple


class Row(NamedTuple):
    """Names of other libraries that have one answer.

    Attributes:
        names: of arguments, options, classes or attributes, with blanks between.
        python: what is said of them.
        command_line: what is said on the command line; the same where it is empty.
    """

    names: str
    python: str
    command_line: str = ""


@cache
def _texts(rows: tuple[Row, ...], *, command_line: bool) -> Mapping[str, str]:
    return {
        name: (row.command_line if command_line else "") or row.python
        for row in rows
        for name in row.names.split()
    }


def said_of(name: str, rows: tuple[Row, ...], *, command_line: bool = False) -> str:
    """What a table says of a name; empty of one that it does not have."""
    return _texts(rows, command_line=command_line).get(name, "")


def no_attribute(of: object, name: str, rows: tuple[Row, ...]) -> AttributeError:
    """The error of an attribute that there is not, with where odtc has what it would be."""
    said = said_of(name, rows)
    known = f"{type(of).__name__!r} object has no attribute {name!r}"
    return AttributeError(f"{known}; {said}" if said else known, name=name, obj=of)
