"""Offsets of stored tensors in their storage."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from odtc.passes.checkpoint.problem import Plan, Recomputation
from odtc.passes.memory.packing.budget import Limit
from odtc.passes.memory.packing.problem import Buffer, PackingProblem
from odtc.passes.memory.packing.solve import solve
from odtc.passes.memory.packing.validate import validate

# Of the search: storage is cheap.
_STEPS = 100_000


@dataclass(frozen=True)
class StorageRegion:
    """The bytes of a storage that a plan needs.

    Attributes:
        nbytes: of all.
        offsets: of each tensor that is stored.
    """

    nbytes: int = 0
    offsets: Mapping[int, int] = field(default_factory=dict)


def region_of(problem: Recomputation, plan: Plan) -> StorageRegion:
    """A place for each tensor, from its store until its last fetch."""
    spans: dict[int, tuple[int, int]] = {}
    for place, number in enumerate(plan.sequence):
        if problem.is_copy(number):
            tensor = problem.moved(number)
            spans[tensor] = spans.get(tensor, (place, place))[0], place
    if not spans:
        return StorageRegion()
    buffers = [
        Buffer(str(tensor), first, last + 1, problem.tasks.sizes[tensor])
        for tensor, (first, last) in spans.items()
    ]
    packing = PackingProblem(buffers)
    solution = solve(packing, Limit(steps=_STEPS))
    validate(packing, solution)
    return StorageRegion(
        solution.height, {tensor: solution.offsets[str(tensor)] for tensor in spans}
    )
