"""Numbers of bytes as people write them: `64MiB`, `1.5 GB`, `1048576`."""

import re
from fractions import Fraction

from odtc.core.errors import UsageError

_UNITS = {"": 1, "B": 1} | {
    f"{prefix}{infix}B": base ** (power + 1)
    for base, infix in ((1000, ""), (1024, "i"))
    for power, prefix in enumerate("KMGT")
}
_BY_NAME = {name.lower(): size for name, size in _UNITS.items()}
_FORM = re.compile(r"\s*(?P<number>\d{1,18}(?:\.\d{1,18})?)\s*(?P<unit>[A-Za-z]*)\s*")


# A budget that is left to the run: the step has several plans.
AUTO = "auto"


def parse_bytes(text: str | int, what: str) -> int:
    """A number of bytes, rounded down.

    Args:
        text: such as `64MiB`, with a unit of 1000 or, as `MiB`, of 1024; or the number itself.
        what: is given, for the message.

    Raises:
        UsageError: it is none, or not positive, or has more digits than any memory has bytes.
    """
    match = _FORM.fullmatch(str(text))
    unit = _BY_NAME.get(match["unit"].lower()) if match else None
    size = int(Fraction(match["number"]) * unit) if match and unit else 0
    if size <= 0:
        raise UsageError(
            f"{text!r} is not a positive number of bytes",
            where=what,
            hint="write such as 64MiB, 1.5GB or 1048576",
        )
    return size
