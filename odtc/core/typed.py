"""JSON that others wrote, read as the type that it should have.

Numbers are amounts, as bytes, seconds and counts are: 0, or from `SMALLEST` to `LARGEST`, so that
what is reckoned with them is finite too.
"""

import reprlib
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from odtc.core.printable import with_article

SMALLEST, LARGEST = 1e-30, 2**63
_BOUNDS = {int: " from 0 to 2**63", float: f" that is 0, or from {SMALLEST:g} to 2**63"}


def typed(of: Any, data: Any) -> Any:
    """Reads a value.

    Args:
        of: its type: a dataclass, `tuple[T, ...]`, `Mapping[K, V]`, an enum, a union, `str`,
            `bool`, `int`, `float` or None.
        data: what JSON had. Keys that a dataclass does not have are left out.

    Returns:
        A value of the type.

    Raises:
        ValueError: `data` has another type, a number is no amount, or a text is no Unicode.
    """
    origin = get_origin(of)
    if origin in (Union, UnionType):
        return _one_of(get_args(of), data)
    if origin is not None:
        return _many(origin, get_args(of), data)
    if is_dataclass(of):
        return _record(of, data)
    if issubclass(of, Enum):
        return of(data)
    if not (_is_amount(of, data) if of in (int, float) else isinstance(data, of)):
        raise _wrong(of, data)
    if isinstance(data, str):
        # A half of a pair of surrogates can be written nowhere.
        data.encode()
    return data


def any_floats(data: Any) -> tuple[float, ...]:
    """Reads numbers that may be negative, infinite or NaN, as losses are.

    Raises:
        ValueError: it is no list of numbers.
    """
    if not isinstance(data, list | tuple) or not all(map(_is_number, data)):
        raise ValueError(f"{reprlib.repr(data)} is not a list of numbers")
    return tuple(map(float, data))


def _is_number(data: Any) -> bool:
    return isinstance(data, int | float) and not isinstance(data, bool)


def _is_amount(of: Any, data: Any) -> bool:
    if not _is_number(data) or (of is int and not isinstance(data, int)):
        return False
    return data == 0 or SMALLEST <= data < LARGEST


def _one_of(kinds: tuple[Any, ...], data: Any) -> Any:
    for of in kinds:
        try:
            return typed(of, data)
        except ValueError:
            continue
    names = " or ".join(with_article(_name(of)) for of in kinds)
    raise ValueError(f"{reprlib.repr(data)} is not {names}")


def _many(origin: Any, of: tuple[Any, ...], data: Any) -> Any:
    if origin is tuple and isinstance(data, list | tuple):
        return tuple(typed(of[0], each) for each in data)
    if origin is Mapping and isinstance(data, Mapping):
        # JSON has keys as texts.
        return {
            typed(of[0], int(key) if of[0] is int else key): typed(of[1], value)
            for key, value in data.items()
        }
    raise _wrong(origin, data)


def _record(of: Any, data: Any) -> Any:
    if not isinstance(data, Mapping):
        raise _wrong(of, data)
    hints, values = get_type_hints(of), {}
    for each in fields(of):
        if each.name in data:
            try:
                values[each.name] = typed(hints[each.name], data[each.name])
            except ValueError as error:
                raise ValueError(f"{each.name}: {error}") from error
        elif each.default is MISSING and each.default_factory is MISSING:
            raise ValueError(f"{each.name} is missing")
    return of(**values)


def _wrong(of: Any, data: Any) -> ValueError:
    what = with_article(_name(of)) + _BOUNDS.get(of, "")
    return ValueError(f"{reprlib.repr(data)} is not {what}")


def _name(of: Any) -> str:
    return of.__name__.strip("_")
