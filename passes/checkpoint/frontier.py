"""Plans from the fastest to the smallest.

They do not depend on a budget: more bytes are never slower then, and less are never larger.
"""

from collections.abc import Iterable, Iterator

from odtc.passes.checkpoint.eviction import Score, evicting
from odtc.passes.checkpoint.problem import Plan, Recomputation, plan_of
from odtc.passes.checkpoint.retention import retained
from odtc.passes.checkpoint.segments import segmented

# None is best on all graphs; each takes milliseconds.
_SCORES = (
    Score(1, 1, 1),
    Score(1, 1, 0.5),
    Score(1, 1, 0),
    Score(1, 1, 2),
    Score(1, 0.5, 0.5),
    Score(0.5, 1, 1),
    Score(1, 0, 1),
    Score(0, 0, 1),
)
# Limits between the lowest peak and that of the step as it is.
_LIMITS = 32
_BISECTIONS = 12


def frontier(problem: Recomputation) -> list[Plan]:
    """Plans of which none is both slower and larger than another one, the fastest first.

    The first is the step as it is; the peak of the last is the lowest that is found.
    """
    first = plan_of(problem, range(len(problem.tasks.tasks)))
    found = [first, *_by_segments(problem), *_lowest(problem, first)]
    low = max(1, min(plan.peak for plan in found))
    # Closer to each other where plans are expensive.
    steps = (round(low * (first.peak / low) ** (n / _LIMITS)) for n in range(1, _LIMITS))
    for limit in steps:
        found += _within(problem, limit)
    return list(_best(found))


def _by_segments(problem: Recomputation) -> Iterator[Plan]:
    for sequence in segmented(problem):
        yield retained(problem, sequence, plan_of(problem, sequence).peak)


def _within(problem: Recomputation, limit: int) -> list[Plan]:
    """Plans within a limit."""
    sequences = (evicting(problem, limit, score) for score in _SCORES)
    return [retained(problem, each, limit) for each in sequences if each is not None]


def _lowest(problem: Recomputation, first: Plan) -> Iterator[Plan]:
    """Plans of falling peaks, down to the lowest that is found."""
    low, high = max(problem.grown, default=0), first.peak
    for _ in range(_BISECTIONS):
        if low >= high:
            return
        middle = (low + high) // 2
        plans = _within(problem, middle)
        yield from plans
        if plans:
            high = min(plan.peak for plan in plans)
        else:
            low = middle + 1


def _best(plans: Iterable[Plan]) -> Iterator[Plan]:
    """The plans that are not both slower and larger than another one."""
    peak = None
    for plan in sorted(plans, key=lambda each: (each.seconds, each.peak)):
        if peak is None or plan.peak < peak:
            peak = plan.peak
            yield plan
