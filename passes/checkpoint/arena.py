"""The size of the arena that a plan needs."""

from odtc.passes.checkpoint.problem import Plan, Recomputation
from odtc.passes.memory.packing.budget import Limit
from odtc.passes.memory.packing.problem import Buffer, PackingProblem
from odtc.passes.memory.packing.solve import solve

# Limit of the search: about a second.
_STEPS = 1_000_000


def arena_of(problem: Recomputation, plan: Plan) -> int:
    """Bytes of an arena in which all copies of the tensors have a place."""
    tasks, sizes = problem.every, problem.tasks.sizes
    # The copy of each tensor that is read now: the place that makes it, and the last that reads it.
    newest: dict[int, tuple[int, int]] = {}
    ended: list[tuple[int, tuple[int, int]]] = []
    for place, number in enumerate(plan.sequence):
        for tensor in tasks[number].reads:
            newest[tensor] = newest[tensor][0], place
        for tensor in tasks[number].allocates:
            if tensor in newest:
                ended.append((tensor, newest[tensor]))
            newest[tensor] = place, place
    buffers = [
        Buffer(f"{tensor}.{first}", first, last + 1, sizes[tensor])
        for tensor, (first, last) in (*ended, *newest.items())
        if sizes[tensor]
    ]
    return solve(PackingProblem(buffers), Limit(steps=_STEPS)).height
