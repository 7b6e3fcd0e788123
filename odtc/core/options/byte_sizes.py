"""Numbers of bytes as people write them: `64MiB`, `1.5 GB`, `1048576`."""

import re
from fractions import Fraction

from odtc.core.errors import UsageError
from odtc.core.options.kinds import NUMBER, MisfitError, shown

_UNITS = {"": 1, "B": 1} | {
    f"{prefix}{infix}B": base ** (power + 1)
    for base, infix in ((1000, ""), (1024, "i"))
    for power, prefix in enumerate("KMGT")
}
_BY_NAME = {name.lower(): size for name, size in _UNITS.items()}
_MOST = 10**18
_FORM = re.compile(r"\s*(?P<number>\d{1,18}(?:\.\d{1,18})?)\s*(?P<unit>[A-Za-z]*)\s*")


# A budget that is left to the run: the step has several plans.
AUTO = "auto"


def parse_bytes(text: str | float, what: str) -> int:
    """A number of bytes, rounded down.

    Args:
        text: such as `64MiB`, with a unit of 1000 or, as `MiB`, of 1024; or the number itself.
        what: is given, for the message.

    Raises:
        UsageError: it is none, or not positive, or has more digits than any memory has bytes.
    """
    size = _read(text) if isinstance(text, str) else _number(text)
    if size <= 0:
        raise UsageError(
            f"{shown(text)} is not a positive number of bytes",
            where=what,
            hint="write, for example, 64MiB, 1.5GB or 1048576",
        )
    return size


def parse_budget(given: float | str | None, what: str) -> int | str | None:
    """A budget: None for none, `AUTO` for several, else a number of bytes.

    Raises:
        UsageError: see `parse_bytes`, for the arguments too.
    """
    if given is None:
        return None
    return AUTO if given == AUTO else parse_bytes(given, what)


def _read(text: str) -> int:
    match = _FORM.fullmatch(text)
    unit = _BY_NAME.get(match["unit"].lower()) if match else None
    return int(Fraction(match["number"]) * unit) if match and unit else 0


def _number(value: object) -> int:
    """The number that a value is; 0 where it is none, or more than any memory has."""
    try:
        size = int(NUMBER.read(value, ""))
    except MisfitError:
        return 0
    return size if size < _MOST else 0
