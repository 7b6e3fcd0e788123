"""`plan_model`: what a step can be made to take in memory, and what that costs in time.

prepare -> kernels -> order of calls -> Recomputation -> plans; nothing is compiled
"""

import os
from dataclasses import dataclass
from typing import Unpack

from odtc.backends.lowering import recomputation, to_kernels
from odtc.backends.targets import Target
from odtc.core.progress import Progress, silent
from odtc.core.specs import WEIGHT_ROLES, Role
from odtc.frontend.training import TRAIN_STEP
from odtc.passes.checkpoint.arena import arena_of
from odtc.passes.checkpoint.frontier import frontier
from odtc.passes.checkpoint.problem import Recomputation
from odtc.preparation import StepOptions, prepare


@dataclass(frozen=True)
class Point:
    """One way to run a step.

    Attributes:
        arena_bytes: of the arena: a budget of so many bytes is met by this.
        time: of the calls, by a model of the target, over that of the step as it is.
        calls: that run.
        repeated: of them those that run again.
    """

    arena_bytes: int
    time: float
    calls: int
    repeated: int


@dataclass(frozen=True)
class Frontier:
    """All ways of which none is both slower and larger than another one.

    Attributes:
        points: the fastest first: the step as it is.
        lower_bound_bytes: of any arena: what the largest call reads and writes.
        parameter_bytes: of weights and running statistics, beside the arena.
        optimizer_bytes: of state and averages, beside the arena.
    """

    points: tuple[Point, ...]
    lower_bound_bytes: int
    parameter_bytes: int
    optimizer_bytes: int


def plan_model(
    model: str | os.PathLike[str],
    target: str | Target = "host-cpu",
    *,
    progress: Progress = silent,
    **options: Unpack[StepOptions],
) -> Frontier:
    """Finds what memory budgets a step can meet, and how.

    Args:
        model: path of the ONNX file.
        target: as of `odtc.compile`.
        progress: called with the name of each stage as it starts.
        options: as of `odtc.compile`.

    Raises:
        OdtcError: as of `odtc.compile`.
    """
    step = prepare(model, target, options, progress)
    progress("make the kernels")
    scheduled = to_kernels(*step.kernels, has_half=step.has_half)
    problem = recomputation(scheduled, step.target, TRAIN_STEP)
    progress("look for plans")

    def total(*roles: Role) -> int:
        return sum(item.spec.nbytes for item in step.training.arguments if item.role in roles)

    return Frontier(
        _points(problem),
        _lower_bound(problem),
        total(*WEIGHT_ROLES),
        total(Role.STATE, Role.AVERAGE),
    )


def _points(problem: Recomputation) -> tuple[Point, ...]:
    """The plans whose arena is smaller than those of all faster ones."""
    whole, count, points = sum(problem.seconds), len(problem.seconds), list[Point]()
    for plan in frontier(problem):
        arena, calls = arena_of(problem, plan), len(plan.sequence)
        if not points or arena < points[-1].arena_bytes:
            points.append(Point(arena, plan.seconds / whole, calls, calls - count))
    return tuple(points)


def _lower_bound(problem: Recomputation) -> int:
    tasks, sizes = problem.tasks.tasks, problem.tasks.sizes
    return max(
        (sum(sizes[each] for each in {*task.allocates, *task.reads}) for task in tasks), default=0
    )
