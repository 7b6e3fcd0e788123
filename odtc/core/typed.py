"""JSON that others wrote, read as the type that it should have.

Numbers are amounts, as bytes, seconds and counts are: finite, not negative, and below `LARGEST`, so
that what is reckoned with them is finite too.
"""

import reprlib
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

LARGEST = 2**63


def typed(of: Any, data: Any) -> Any:
    """Reads a value.

    Args:
        of: its type: a dataclass, `tuple[T, ...]`, `Mapping[K, V]`, an enum, a union, `str`,
            `bool`, `int`, `float` or None.
        data: what JSON had. Keys that a dataclass does not have are left out.

    Returns:
        A value of the type.

    Raises:
        ValueError: `data` has another type, or a number is no amount.
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
    return data


def _is_amount(of: Any, data: Any) -> bool:
    kinds = (int, float) if of is float else int
    return isinstance(data, kinds) and not isinstance(data, bool) and 0 <= data < LARGEST


def _one_of(kinds: tuple[Any, ...], data: Any) -> Any:
    for of in kinds:
        try:
            return typed(of, data)
        except ValueError:
            continue
    raise _wrong(kinds, data)


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
            values[each.name] = typed(hints[each.name], data[each.name])
        elif each.default is MISSING and each.default_factory is MISSING:
            raise ValueError(f"a {of.__name__} without {each.name}")
    return of(**values)


def _wrong(of: Any, data: Any) -> ValueError:
    return ValueError(f"{reprlib.repr(data)} is no {getattr(of, '__name__', of)}")
