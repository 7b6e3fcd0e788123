"""Options as fields of a frozen dataclass: their bounds, and how they are read from text.

    @dataclass(frozen=True)
    class SGD:
        momentum: float = fraction(0.0)

        def __post_init__(self):
            check_options(self)

A field without a bound is not an option: it is left as it is, and cannot be given in text.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, TypeVar

from odtc.core.errors import UsageError
from odtc.core.options.kinds import FLAG, MisfitError, shown
from odtc.core.options.option_text import did_you_mean, format_options, meant, parse_options

T = TypeVar("T")


@dataclass(frozen=True)
class Bound:
    """The values that an option may have.

    Attributes:
        kind: what it is to be read as, for messages.
        read: from text or a number to the value; raises ValueError, TypeError or KeyError.
        holds: whether a value is within the bound.
        broken: what is said of a value that is not.
    """

    kind: str
    read: Callable[[Any], Any]
    holds: Callable[[Any], bool]
    broken: str


def _switch(value: Any) -> bool:
    return _SWITCHES[value] if isinstance(value, str) else FLAG.read(value, "")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool | bytes):
        raise TypeError
    return float(value)


def _whole(value: Any) -> int:
    if isinstance(value, str):
        return int(value)
    number = _number(value)
    if number != int(number):
        raise ValueError
    return int(value)


# Steps compute in float32: what is above 0 there is from one of these to the other.
LEAST_FLOAT32, MOST_FLOAT32 = 2.0**-149, (2 - 2.0**-23) * 2.0**127

_SWITCHES = {"true": True, "false": False}
SWITCH = Bound("a switch (true or false)", _switch, lambda _: True, "")
_TEXT = Bound("text", _text, bool, "is empty")
_SHARE = Bound("a number", _number, lambda value: 0 < value <= 1, "is outside (0, 1]")
_FRACTION = Bound("a number", _number, lambda value: 0 <= value < 1, "is outside [0, 1)")
NOT_NEGATIVE = Bound(
    "a number",
    _number,
    lambda value: 0 <= value <= MOST_FLOAT32,
    "is not a number of at least 0 in float32",
)
_POSITIVE = Bound(
    "a number",
    _number,
    lambda value: LEAST_FLOAT32 <= value <= MOST_FLOAT32,
    "is not a number above 0 in float32",
)

_COUNT = Bound("a whole number", _whole, lambda value: value >= 1, "is below 1")
NATURAL = Bound("a whole number", _whole, lambda value: value >= 0, "is below 0")


def _option(bound: Bound) -> Callable[..., Any]:
    def option(*default: Any) -> Any:
        given = {"default": default[0]} if default else {}
        return field(metadata={"bound": bound}, **given)

    return option


# Each makes a field; without a default the option must be given. A default of None may stay None.
switch = _option(SWITCH)
text = _option(_TEXT)
share = _option(_SHARE)
fraction = _option(_FRACTION)
not_negative = _option(NOT_NEGATIVE)
positive = _option(_POSITIVE)
count = _option(_COUNT)
natural = _option(NATURAL)


def check_options(options: Any) -> None:
    """Checks every option of a dataclass against its bound, and gives it its type.

    Raises:
        UsageError: a value is outside its bound.
    """
    for each in fields(options):
        value = getattr(options, each.name)
        if "bound" in each.metadata and not (value is None and each.default is None):
            bound = each.metadata["bound"]
            object.__setattr__(options, each.name, read_option(bound, value, each.name))


def options_of(kind: type) -> dict[str, Field]:
    """The fields of a dataclass that are options, by name."""
    return {each.name: each for each in fields(kind) if "bound" in each.metadata}


def parse_choice(
    what: str, text: str, choices: Mapping[str, type[T]], example: str
) -> tuple[type[T], dict[str, Any]]:
    """Reads `name{key=value}`, where a name stands for a dataclass; keys may have `-` for `_`.

    Args:
        what: what is chosen, for messages.
        text: what the user wrote.
        choices: the dataclasses by name.
        example: a text of the right form.

    Returns:
        The dataclass, and the options to make it with.

    Raises:
        UsageError: the text is malformed, or names a choice, an option or a value that is none.
    """
    try:
        name, given = parse_options(text)
    except ValueError as error:
        raise UsageError(
            f"cannot read the {what} {text!r}: {error}", hint=f"write {example}"
        ) from error
    if name not in choices:
        near = did_you_mean(name, choices)
        raise UsageError(f"unknown {what} {name!r}", hint=f"{near}one of: {', '.join(choices)}")
    return choices[name], read_options(f"{what} {name}", choices[name], given)


def make_choice(what: str, text: str, choices: Mapping[str, type[T]], example: str) -> T:
    """Reads as `parse_choice` does, and makes the dataclass with the options.

    Raises:
        UsageError: as `parse_choice`, or an option is outside of its bound.
    """
    kind, options = parse_choice(what, text, choices, example)
    try:
        return kind(**options)
    except UsageError as error:
        raise UsageError(
            f"the {what} {text}: {error.what}",
            hint=error.hint or f"write, for example, {example}",
        ) from error


def read_options(what: str, kind: type, given: Mapping[str, str]) -> dict[str, Any]:
    """Options of a dataclass from the texts of their values.

    Raises:
        UsageError: an option is unknown, or its value is of another kind.
    """
    known = options_of(kind)
    listed = f"its options are {', '.join(map(_written, known))}" if known else "it has no options"
    read = {}
    for key, value in given.items():
        name = key.replace("-", "_")
        if name not in known:
            raise UsageError(
                f"the {what} has no option {key!r}",
                hint=f"{meant(key, map(_written, known))}{listed}",
            )
        read[name] = _read(known[name].metadata["bound"], value, f"the {what}'s option {key}")
    return read


def require_options(what: str, kind: type, given: Mapping[str, Any]) -> None:
    """Checks that every option without a default is given.

    Raises:
        UsageError: one is not.
    """
    for name, each in options_of(kind).items():
        if each.default is MISSING and name not in given:
            raise UsageError(
                f"the {what} lacks its option {_written(name)}",
                hint=f"write {_written(name)}=VALUE in braces after the name",
            )


def format_choice(name: str, options: Mapping[str, Any]) -> str:
    """The text that `parse_choice` reads."""
    values = {_written(key): value for key, value in options.items()}
    return format_options(
        name, {k: str(v).lower() if isinstance(v, bool) else v for k, v in values.items()}
    )


def _written(name: str) -> str:
    return name.replace("_", "-")


def read_option(bound: Bound, value: Any, where: str) -> Any:
    """Reads a value that has to be within a bound.

    Raises:
        UsageError: it is of another kind, or outside of the bound.
    """
    read = _read(bound, value, where)
    if not bound.holds(read):
        raise UsageError(f"{where} {shown(read)} {bound.broken}")
    return read


def _read(bound: Bound, value: Any, where: str) -> Any:
    try:
        return bound.read(value)
    except (ValueError, TypeError, KeyError, OverflowError, RuntimeError, MisfitError):
        raise UsageError(f"{where} is {shown(value)}, which is not {bound.kind}") from None
