"""Parsing of a device's or tracker's answers, which may be malformed, outdated or hostile."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from odtc.core.errors import DeviceError

_LETTERS = 200


@contextmanager
def understood(who: str, where: str) -> Iterator[None]:
    """Turns errors of a malformed answer within the block into a device error.

    Args:
        who: sends the answer, for messages.
        where: its address, for messages.

    Raises:
        DeviceError: the answer is malformed.
    """
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        reason = str(error)[:_LETTERS]
        raise DeviceError(
            f"what {who} says cannot be understood: {type(error).__name__}: {reason}",
            where=where,
            hint=f"check that {who} is odtc's or TVM's, of this version, and the one you mean",
        ) from error


def told(text: str, where: str) -> dict[str, Any]:
    """Parses the JSON object that a device sends.

    Raises:
        DeviceError: the text is none, or nests too deep.
    """
    with understood("the device", where):
        found = json.loads(text)
        if not isinstance(found, dict):
            raise TypeError("no object")
        return found
