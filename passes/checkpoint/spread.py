"""Few plans for all budgets: from the fastest to the smallest, by even ratios of their bytes."""

from odtc.passes.checkpoint.arena import arena_of
from odtc.passes.checkpoint.frontier import frontier
from odtc.passes.checkpoint.problem import Plan, Recomputation

# Each is a function of the library; its calls are all that it adds.
COUNT = 5


def spread(problem: Recomputation, count: int = COUNT) -> list[Plan]:
    """At most `count` plans, each slower and smaller than the one before it.

    The first is the step as it is, the last the smallest that is found.
    """
    arenas = {}
    for plan in frontier(problem):
        arenas.setdefault(arena_of(problem, plan), plan)
    high, low = max(arenas), min(arenas)
    limits = (high * (low / high) ** (number / (count - 1)) for number in range(count))
    found: list[Plan] = []
    for limit in limits:
        # Frontiers have the fastest plan first.
        plan = next(plan for arena, plan in arenas.items() if arena <= max(limit, low))
        if plan not in found:
            found.append(plan)
    return found
