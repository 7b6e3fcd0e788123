"""How long a search may go on: in steps, to end the same on every machine, and in seconds."""

import time
from dataclasses import dataclass

# Steps that take less than a second on a core of a present server, in Python.
STEPS_PER_SECOND = 700_000


@dataclass(frozen=True)
class Limit:
    """A limit at which a search ends, whatever it has found.

    Attributes:
        steps: work, in units of about a microsecond. The same problem and steps give the same plan.
        seconds: on the clock. A plan found by its end depends on the machine; None sets no end.
    """

    steps: int = 10 * STEPS_PER_SECOND
    seconds: float | None = None


class Budget:
    """The unspent part of a limit.

    Attributes:
        steps: that are left; below zero where the last ones were more than there were.
    """

    def __init__(self, limit: Limit) -> None:
        self.steps = limit.steps
        self._end = None if limit.seconds is None else time.monotonic() + limit.seconds

    def spend(self, steps: int) -> bool:
        """Takes steps away; returns whether there were any left before."""
        left = self.left()
        self.steps -= steps
        return left

    def left(self) -> bool:
        """Whether work may go on."""
        return self.steps > 0 and (self._end is None or time.monotonic() < self._end)

    def seconds(self) -> float | None:
        """Seconds on the clock that are left; None where there is no end."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())
