"""Attributes of a call of one of our operators, as a dataclass says them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, TypeVar, get_type_hints

from tvm import relax

A = TypeVar("A")
Ints = tuple[int, ...]
Flags = tuple[bool, ...]

# What TVM holds, by what a field is declared as: numbers as its own, and lists of these.
_KINDS: Mapping[Any, Callable[[Any], Any]] = {
    bool: bool,
    float: float,
    int: int,
    str: str,
    Ints: lambda values: tuple(map(int, values)),
    Flags: lambda values: tuple(map(bool, values)),
    Any: lambda value: value,
}


@dataclass(frozen=True)
class NoAttributes:
    """The attributes of an operator that has none."""


def read_as(kind: type[A], call: relax.Call) -> A:
    """The attributes of a call; a default stands for what it does not say.

    Args:
        kind: a dataclass.
        call: of an operator that has such attributes.
    """
    given = call.attrs.items() if call.attrs else ()
    readers = _readers(kind)
    return kind(**{name: readers[name](value) for name, value in given})


@cache
def _readers(kind: type) -> dict[str, Callable[[Any], Any]]:
    hints = get_type_hints(kind)
    return {each.name: _KINDS[hints[each.name]] for each in fields(kind)}
