"""A memory plan in which every tensor has pages of its own, between guard pages."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from odtc.passes.memory import arena
from odtc.passes.memory.packing.budget import Limit
from odtc.passes.memory.packing.families import families_of
from odtc.passes.memory.packing.problem import PackingProblem, PackingSolution
from tests.guarded.memory import PAGE, end_aligned, whole_pages

# Offset and bytes of each tensor.
Tensors = list[tuple[int, int]]


@contextmanager
def apart() -> Iterator[dict[int, Tensors]]:
    """Steps that are compiled within the block have such plans: by the bytes of their arenas."""
    plans: dict[int, Tensors] = {}

    def solve(problem: PackingProblem, limit: Limit | None = None) -> PackingSolution:
        solution, tensors = solve_apart(problem)
        if tensors:
            # Two functions may need as much: what is no tensor of either is guarded.
            plans[solution.height] = tensors + plans.get(solution.height, [])
        return solution

    with patch.object(arena, "solve", solve):
        yield plans


def solve_apart(problem: PackingProblem) -> tuple[PackingSolution, Tensors]:
    """No two tensors share a page, whenever they are alive."""
    offsets, tensors, end = {}, [], 0
    for family in families_of(problem.buffers):
        begin = end + PAGE + end_aligned(family.size) // family.alignment * family.alignment
        offsets |= {member: begin + place for member, place in family.members}
        if family.size:
            tensors.append((begin, family.size))
            end = begin // PAGE * PAGE + whole_pages(begin % PAGE + family.size)
    return PackingSolution(offsets, end + PAGE, 0), tensors
