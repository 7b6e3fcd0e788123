"""Names that other libraries have, and what is said of them.

A name that is nearly one of odtc's own may mean something else, as `shuffle` and `schedule`: what
is in a table of these rows counts before what is near.
"""

from collections.abc import Collection, Mapping
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


def check_set(of: object, name: str, own: Collection[str], rows: tuple[Row, ...]) -> None:
    """Checks that an attribute that is set is one that is read: nothing would come of others.

    Args:
        of: whose it is. A class that is derived from odtc's may have attributes of its own.
        name: of the attribute.
        own: names of the attributes that there are beside those of the class.
        rows: what is said of names of other libraries.

    Raises:
        AttributeError: it is none of them.
    """
    is_known = name.startswith("_") or name in own or hasattr(type(of), name)
    if not is_known and type(of).__module__.startswith("odtc."):
        raise no_attribute(of, name, rows)
