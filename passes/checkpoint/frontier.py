"""Plans from the fastest to the smallest.

They do not depend on a budget: more bytes are never slower then, and less are never larger. With a
storage there are those without it, too: then it never makes a step slower, or larger.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from odtc.passes.checkpoint.plans.eviction import Score, evicting
from odtc.passes.checkpoint.plans.minimum_cut import cutting
from odtc.passes.checkpoint.plans.revolve import revolving
from odtc.passes.checkpoint.plans.segments import segmented
from odtc.passes.checkpoint.problem import Plan, Recomputation, highest_of, plan_of
from odtc.passes.checkpoint.repair import repaired
from odtc.passes.checkpoint.retention import retained
from odtc.passes.checkpoint.stage_program import StageProgram

Strategy = Callable[[Recomputation], Iterator[list[int]]]
# Known ways, by the names of their authors: the result is never worse than theirs.
STRATEGIES: dict[str, Strategy] = {
    "Chen et al., 2016": segmented,
    "Revolve, 2000": revolving,
    "minimum cut": cutting,
}


@dataclass(frozen=True)
class Guided:
    """A way to choose the tensors to drop.

    Attributes:
        score: of what is dropped.
        share: of the limit that a choice for one moment keeps within, which goes before the score;
            None for no choice.
        slack: part of the room left free where a choice is asked for again, see `evicting`.
    """

    score: Score
    share: float | None = 1.0
    slack: float | None = None


# A choice for the moment at which most bytes are alive. Where it decides what is kept, these are
# hardly slower than what no plan is faster than.
_AHEAD = (Guided(Score(1, 1, 0)), Guided(Score(1, 1, 1)))
# Other choices, and none, for limits at which it is not one moment that decides. None of these ways
# is best on all graphs.
_OTHERS = (
    Guided(Score(1, 1, 0), 0.9),
    *(Guided(Score(1, 1, 0), 1.0, slack) for slack in (0.3, 0.15)),
    Guided(Score(1, 1, 1), 1.0, 0.05),
    *(Guided(score, None) for score in (Score(1, 1, 0.5), Score(1, 1, 0), Score(1, 0.5, 0.5))),
    *(Guided(score, None) for score in (Score(1, 1, 1), Score(1, 0, 1), Score(0, 0, 1))),
)
# A plan that takes at most this part of the step longer than any must is not improved.
_NEAR = 3e-4
# Limits between the lowest peak and that of the step as it is, for guided ways and for all.
_LIMITS, _ALL_WAYS = 128, 32
_BISECTIONS = 12
# Where a repair comes so far below the lowest peak of the other ways, plans are made by it, too, of
# peaks that fall in such steps.
_LOWER, _REPAIRS = 0.97, 0.99
# Frontiers that are kept: a caller mostly asks for several budgets of the same step.
_KEPT = 16


@lru_cache(_KEPT)
def frontier(problem: Recomputation) -> tuple[Plan, ...]:
    """Plans of which none is both slower and larger than another one, the fastest first.

    The first is the step as it is; the peak of the last is the lowest that is found. With a storage
    both are true of the plans that may use it; among them are those of the step without one.
    """
    first = plan_of(problem, range(len(problem.tasks.tasks)))
    stage = StageProgram(problem, highest_of(problem, first))
    found = [first, *_known(problem), *_lowest(problem, first, stage)]
    low = max(1, min(plan.peak for plan in found))
    ratio = first.peak / low
    even = {low + (first.peak - low) * n // _LIMITS for n in range(1, _LIMITS)}
    # Closer to each other where plans are expensive.
    closer = {round(low * ratio ** (n / _ALL_WAYS)) for n in range(1, _ALL_WAYS)}
    # The first plan at the lowest peak may not be the fastest there.
    for limit in sorted({low} | even | closer):
        found += _within(problem, limit, stage, _OTHERS if limit in closer | {low} else ())
    found += _repaired(problem, first, low)
    best = tuple(best_of(found))
    if problem.storage is None:
        return best
    # The arena's size depends on packing: a plan of a higher peak may have a smaller arena.
    without = frontier(replace(problem, storage=None))
    return tuple(sorted({*best, *without}, key=lambda each: (each.seconds, each.peak)))


def lowest_of(plans: Iterable[Plan]) -> Plan:
    """The plan of the lowest peak."""
    return min(plans, key=lambda plan: plan.peak)


def _known(problem: Recomputation) -> Iterator[Plan]:
    """Plans of the known ways, without the repetitions that they do not need."""
    for strategy in STRATEGIES.values():
        for sequence in strategy(problem):
            yield retained(problem, sequence, plan_of(problem, sequence).peak)


def _within(
    problem: Recomputation, limit: int, stage: StageProgram, others: Sequence[Guided] = _OTHERS
) -> Iterator[Plan]:
    """Plans within a limit, until one is close to the lower bound of the time."""
    least = stage.cheapest(limit)
    if least is None:
        return
    enough = (1 + _NEAR) * sum(problem.seconds) + least.seconds
    for way in (*_AHEAD, *others):
        choice = stage.cheapest(int(way.share * limit)) if way.share else None
        sequence = evicting(problem, limit, way.score, choice, way.slack)
        if sequence is not None:
            plan = retained(problem, sequence, limit)
            yield plan
            if plan.seconds <= enough:
                return


def _lowest(problem: Recomputation, first: Plan, stage: StageProgram) -> Iterator[Plan]:
    """Plans of falling peaks, down to the lowest that is found."""
    low, high = max(problem.grown, default=0), first.peak
    for _ in range(_BISECTIONS):
        if low >= high:
            return
        middle = (low + high) // 2
        plan = next(_within(problem, middle, stage), None)
        if plan is None:
            low = middle + 1
        else:
            yield plan
            high = plan.peak


def _repaired(problem: Recomputation, first: Plan, low: int) -> Iterator[Plan]:
    """Plans of falling peaks, each made from the one before, if that comes below the lowest."""
    limit = int(_LOWER * low)
    lower = repaired(problem, limit, first.sequence)
    if lower is None:
        return
    yield retained(problem, lower, limit)
    limit, sequence = first.peak, repaired(problem, first.peak, first.sequence)
    while sequence is not None:
        yield retained(problem, sequence, limit)
        limit = int(_REPAIRS * limit)
        sequence = repaired(problem, limit, sequence)


def best_of(plans: Iterable[Plan]) -> Iterator[Plan]:
    """The plans that are not both slower and larger than another one."""
    peak = None
    for plan in sorted(plans, key=lambda each: (each.seconds, each.peak)):
        if peak is None or plan.peak < peak:
            peak = plan.peak
            yield plan
