"""What the server says to whoever reads its log."""

import os
from contextlib import suppress

_STDERR = 2


def say(text: str) -> None:
    """Writes a line; a log on a full disk goes without it, and the server goes on."""
    with suppress(OSError):
        os.write(_STDERR, f"{text}\n".encode())
