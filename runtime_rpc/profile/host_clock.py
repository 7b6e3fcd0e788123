"""What the host does in training steps, and when: nothing is noted unless somebody asks for it."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """Something that the host did.

    Attributes:
        what: `upload`, `download`, or the function of the library that it called.
        begin: when, by the host's monotonic clock in seconds.
        end: when it was done.
        runs: of that function.
    """

    what: str
    begin: float
    end: float
    runs: int


class HostClock:
    """Notes what is done while it is on.

    Attributes:
        spans: that were noted, or None while it is off.
    """

    spans: list[Span] | None = None

    @contextmanager
    def span(self, what: str) -> Iterator[Callable[[int], None]]:
        """A block that is noted, unless it fails; it may say that it was another number of runs."""
        runs, begin = [1], time.monotonic()
        yield runs.append
        if self.spans is not None:
            self.spans.append(Span(what, begin, time.monotonic(), runs[-1]))
