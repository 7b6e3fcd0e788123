"""Few plans for all budgets: from the fastest to the smallest, by even ratios of their bytes."""

from collections.abc import Callable, Sequence
from functools import cache

from odtc.passes.checkpoint.arena import arena_of
from odtc.passes.checkpoint.frontier import frontier
from odtc.passes.checkpoint.problem import Plan, Recomputation

# Each is a function of the library; its calls are all that it adds.
COUNT = 5


def spread(problem: Recomputation, count: int = COUNT) -> list[Plan]:
    """Returns at most `count` plans, each slower and smaller than the one before it.

    The first is the step as it is, the last the smallest that is found. To pack a plan takes longer
    than to find it, and no arena is below its plan's peak: so most plans are not packed.
    """
    plans = frontier(problem)
    arena = cache(lambda plan: arena_of(problem, plan))
    high, low = arena(plans[0]), _smallest(plans, arena)
    limits = (high * (low / high) ** (number / (count - 1)) for number in range(count))
    found: list[Plan] = []
    for limit in limits:
        room = max(limit, low)
        # Frontiers have the fastest plan first.
        plan = next(plan for plan in plans if plan.peak <= room and arena(plan) <= room)
        if plan not in found:
            found.append(plan)
    return found


def _smallest(plans: Sequence[Plan], arena: Callable[[Plan], int]) -> int:
    """Bytes of the smallest arena; plans are sorted by falling peaks."""
    least = arena(plans[-1])
    for plan in reversed(plans):
        if plan.peak >= least:
            break
        least = min(least, arena(plan))
    return least
