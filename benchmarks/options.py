"""Values of options that several benchmarks take."""

import argparse
from collections.abc import Sequence


def listed(text: str, known: Sequence[str], what: str) -> list[str]:
    """The names in a list joined by commas, as they are known, or `all` of them.

    Raises:
        ArgumentTypeError: there is no such name.
    """
    if text == "all":
        return list(known)
    found = {name.lower(): name for name in known}
    for name in text.split(","):
        if name.lower() not in found:
            raise argparse.ArgumentTypeError(f"no {what} {name!r}; there are {', '.join(known)}")
    return [found[name.lower()] for name in text.split(",")]


def positive(text: str) -> int:
    """A number from 1.

    Raises:
        ArgumentTypeError: it is none.
    """
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return int(text)
