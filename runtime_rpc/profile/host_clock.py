"""A clock of the host's work in training steps; it records nothing unless it is asked to."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass


@dataclass(frozen=True)
class HostSpan:
    """A recorded activity of the host.

    Attributes:
        what: `upload`, `download`, or the function of the library that it called.
        begin: when, by the host's monotonic clock in seconds.
        end: when it was done.
        runs: of that function.
        lengths: of each run, where a step has several.
    """

    what: str
    begin: float
    end: float
    runs: int
    lengths: tuple[int, ...] = ()


def _nobody(runs: int) -> None:
    """Ignores a number of runs."""


# One for all blocks: a small model's step is so short that creating it would count.
_UNSEEN = nullcontext(_nobody)


class HostClock:
    """Records activities while it is on.

    Attributes:
        spans: that were noted, or None while it is off.
    """

    spans: list[HostSpan] | None = None

    def span(self, what: str) -> AbstractContextManager[Callable[[int], None]]:
        """Records the block, unless it fails; the block may set another number of runs."""
        return _UNSEEN if self.spans is None else _noted(self.spans, what)

    def note(self, what: str, begin: float, runs: int, lengths: Sequence[int] = ()) -> None:
        """Records what is over now, for an activity whose name is known only then.

        Args:
            what: as of `HostSpan`.
            begin: when it began, as `time.monotonic` has it.
            runs: of that function.
            lengths: of each run, where a step has several.
        """
        if self.spans is not None:
            self.spans.append(HostSpan(what, begin, time.monotonic(), runs, tuple(lengths)))


@contextmanager
def _noted(spans: list[HostSpan], what: str) -> Iterator[Callable[[int], None]]:
    runs, begin = [1], time.monotonic()
    yield runs.append
    spans.append(HostSpan(what, begin, time.monotonic(), runs[-1]))
