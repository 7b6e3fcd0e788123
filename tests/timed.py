"""Times that a test bounds: of several rounds, so that what else a machine does decides nothing.

A test that asserts on them is marked `timed`: `make timed` runs those, one after the other, and
`make test` none, as it runs on all cores, which others may use too.
"""

import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

ROUNDS = 7
Clock = Callable[[], float]


@dataclass(frozen=True, repr=False)
class Figures:
    """Times of several rounds, as an assertion's message shows them: the median, and the spread."""

    each: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle of them."""
        return statistics.median(self.each)

    def __repr__(self) -> str:
        low, high = min(self.each), max(self.each)
        rounds = ", ".join(f"{each:.4g}" for each in self.each)
        return f"median {self.median:.4g}, {low:.4g} to {high:.4g} in {len(self.each)}: {rounds}"


def figures(each: Iterable[float]) -> Figures:
    """Of a figure that a test measures by itself, once per round."""
    return Figures(tuple(each))


def seconds(
    run: Callable[[], object], rounds: int = ROUNDS, clock: Clock = time.process_time
) -> Figures:
    """Seconds of each round of it: of the processor, unless another clock is given."""
    return figures(_taken(run, clock) for _ in range(rounds))


def ratio(
    one: Callable[[], object],
    other: Callable[[], object],
    rounds: int = ROUNDS,
    clock: Clock = time.process_time,
) -> Figures:
    """Times as long as `other` that `one` takes: in each round both run, one after the other.

    The one that comes first changes with each round, so that what slows the machine down for some
    time does not always slow the same one.
    """
    ratios = []
    for number in range(rounds):
        pair = (one, other) if number % 2 == 0 else (other, one)
        taken = [_taken(run, clock) for run in pair]
        first, second = taken if number % 2 == 0 else taken[::-1]
        ratios.append(first / second)
    return figures(ratios)


def _taken(run: Callable[[], object], clock: Clock) -> float:
    began = clock()
    run()
    return clock() - began
