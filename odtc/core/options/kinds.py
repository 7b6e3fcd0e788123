"""Kinds of arguments: what each is called, and how a value of it comes into one type.

Numbers of NumPy become Python's, paths become texts, lists become tuples. `True` is no number and
"2" is none either: who writes that means something else.
"""

import math
import operator
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from numbers import Real
from typing import Any, SupportsIndex

from odtc.core.printable import printable, with_article

_LONGEST = 60
# No size, count or seed has more.
_MOST_BITS = 64
_SHOWN = (str, bytes, int, float, complex, type(None))


class MisfitError(Exception):
    """A value is of another kind than it has to be.

    Attributes:
        at: what it is called: the argument, or a part of it.
    """

    def __init__(self, at: str, value: Any, wanted: str) -> None:
        super().__init__(f"{at} is {shown(value)}, not {with_article(wanted)}")
        self.at = at


@dataclass(frozen=True)
class Kind:
    """A kind of argument: the values that it may have.

    Attributes:
        wanted: what it is called, after `not a`.
        hint: what to give.
        read: from a value, and what that is called, to it in its own type; raises MisfitError.
    """

    wanted: str
    hint: str
    read: Callable[[Any, str], Any]

    def with_hint(self, hint: str) -> "Kind":
        """The same with another hint."""
        return replace(self, hint=hint)


def kind(wanted: str, hint: str, read: Callable[[Any], Any]) -> Kind:
    """A kind of single values; `read` raises one of the usual errors for what is none."""

    def read_at(value: Any, at: str) -> Any:
        try:
            return read(value)
        except (TypeError, ValueError, OverflowError, RuntimeError, MisfitError):
            raise MisfitError(at, value, wanted) from None

    return Kind(wanted, hint, read_at)


def shown(value: Any) -> str:
    """A value as a message shows it: itself where it is short, else its type and its size."""
    name, module = type(value).__name__, type(value).__module__
    called = name if module == "builtins" else f"{module}.{name}"
    sizes = getattr(value, "shape", None)
    if isinstance(sizes, tuple) and sizes:
        return f"a {called} of shape {list(sizes)}"
    if isinstance(value, _SHOWN) and not _is_long(value):
        text = printable(repr(value))
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
    if isinstance(value, int) and not isinstance(value, bool):
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return f"a {called}"


def _is_long(value: Any) -> bool:
    """Whether Python itself would not write the number."""
    return isinstance(value, int) and value.bit_length() > _MOST_BITS


def _index(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise TypeError
    if str(getattr(value, "dtype", "")).endswith("bool"):
        raise TypeError
    number = operator.index(value)
    if number.bit_length() > _MOST_BITS:
        raise OverflowError
    return number


def _real(value: Any) -> float | int:
    is_number = isinstance(value, Real) or (
        not getattr(value, "ndim", 1) and hasattr(value, "__float__")
    )
    if not is_number or isinstance(value, bool):
        raise TypeError
    if isinstance(value, int):
        return value
    return float(value)


def _finite(value: Any) -> float | int:
    number = _real(value)
    if not math.isfinite(number):
        raise ValueError
    return number


def _flag(value: Any) -> bool:
    # NumPy's too, without an import of it.
    if type(value).__name__ not in ("bool", "bool_"):
        raise TypeError
    return bool(value)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError
    return str(value)


def _path(value: Any) -> str:
    path = os.fspath(value)
    if not isinstance(path, str) or not path or "\0" in path:
        raise TypeError
    return path


def _callable(value: Any) -> Any:
    if not callable(value):
        raise TypeError
    return value


WHOLE = kind("whole number", "give a whole number, such as 4", _index)
REAL = kind("number", "give a number, such as 0.5", _real)
NUMBER = kind("finite number", "give a number, such as 0.5", _finite)
FLAG = kind("switch", "give True or False", _flag)
TEXT = kind("string", "give a string that is not empty", _text)
PATH = kind("path", "give the path of a file, as a str or a pathlib.Path", _path)
FUNCTION = kind("function", "give a function or another callable", _callable)
# The function itself says what it may be.
ANYTHING = kind("value", "", lambda value: value)


def whole_from(least: int) -> Kind:
    """Whole numbers of at least that."""

    def read(value: Any) -> int:
        number = _index(value)
        if number < least:
            raise ValueError
        return number

    wanted = f"whole number of {least} or more"
    return kind(wanted, f"give a {wanted}, such as {least + 1}", read)


def optional(of: Kind) -> Kind:
    """None, or what it is else."""
    return Kind(of.wanted, of.hint, lambda value, at: None if value is None else of.read(value, at))


def either(*kinds: Kind, hint: str = "") -> Kind:
    """One of several kinds; what is wrong with a part of a value is told as that."""
    wanted = " or ".join(each.wanted for each in kinds)

    def read(value: Any, at: str) -> Any:
        for each in kinds:
            try:
                return each.read(value, at)
            except MisfitError as error:
                if error.at != at:
                    raise
        raise MisfitError(at, value, wanted)

    return Kind(wanted, hint or kinds[-1].hint, read)


def instance(of: type | tuple[type, ...], wanted: str, hint: str) -> Kind:
    """An object of a class."""

    def read(value: Any) -> Any:
        if not isinstance(value, of):
            raise TypeError
        return value

    return kind(wanted, hint, read)


def instance_of(module: str, name: str, wanted: str, hint: str) -> Kind:
    """An object of a class that is imported when there is a value to read, for a quick start."""

    def read(value: Any, at: str) -> Any:
        return instance(getattr(import_module(module), name), wanted, hint).read(value, at)

    return Kind(wanted, hint, read)


def several(of: Kind, wanted: str, hint: str) -> Kind:
    """A tuple, from a list, a set or whatever else is gone through; a text is one value."""

    def read(value: Any, at: str) -> Any:
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
            raise MisfitError(at, value, wanted)
        try:
            held = list(value)
        except TypeError:  # an array without dimensions
            raise MisfitError(at, value, wanted) from None
        return tuple(of.read(each, f"{at}[{n}]") for n, each in enumerate(held))

    return Kind(wanted, hint, read)


def mapping(of: Kind, wanted: str, hint: str) -> Kind:
    """A dictionary from names."""

    def read(value: Any, at: str) -> Any:
        if not isinstance(value, Mapping):
            raise MisfitError(at, value, wanted)
        keys = (TEXT.read(key, f"a name in {at}") for key in value)
        return {key: of.read(value[key], f"{at}[{key!r}]") for key in keys}

    return Kind(wanted, hint, read)
