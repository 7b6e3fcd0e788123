"""The log of the server."""

import os
import select
import time
from contextlib import suppress

_STDERR = 2
_MINUTE = 60.0
# At least this much fits in a pipe that polls as writable.
_MOST_BYTES = select.PIPE_BUF


def say(text: str) -> None:
    """Writes a line, or drops it where the log is on a full disk or in a pipe that is not read."""
    with suppress(OSError):
        poll = select.poll()
        poll.register(_STDERR, select.POLLOUT)
        if poll.poll(0):
            os.write(_STDERR, f"{text}\n".encode(errors="backslashreplace")[-_MOST_BYTES:])


class RateLimitedLog:
    """Writes at most so many lines a minute, and the number of those left out.

    Args:
        lines: a minute.
    """

    def __init__(self, lines: int) -> None:
        self._lines = lines
        self._began, self._said, self._left_out = -_MINUTE, 0, 0

    def say(self, text: str) -> None:
        """Writes a line, or counts it."""
        now = time.monotonic()
        if now - self._began >= _MINUTE:
            if self._left_out:
                say(f"... and {self._left_out} more such lines")
            self._began, self._said, self._left_out = now, 0, 0
        if self._said < self._lines:
            self._said += 1
            say(text)
        else:
            self._left_out += 1
