"""`plan_model`: what a step can be made to take in memory, and what that costs in time.

prepare -> kernels -> order of calls -> Recomputation -> plans, for each number of micro-batches;
nothing is compiled
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Unpack

from odtc.backends.targets import Target
from odtc.core.progress import Progress, silent
from odtc.core.specs import WEIGHT_ROLES, Role
from odtc.passes.checkpoint.cuts import Cut, Way, ways
from odtc.passes.checkpoint.problem import Recomputation, plan_of
from odtc.passes.checkpoint.segments import segmented
from odtc.preparation import StepOptions, read_source
from odtc.splitting import Cuts, Prepared


@dataclass(frozen=True)
class Point:
    """One way to run a step.

    Attributes:
        arena_bytes: of the arena.
        time: of the calls, by a model of the target, over that of the step as it is.
        calls: that run, for each micro-batch.
        repeated: of them those that run again.
        micro_batches: that make a step.
        accumulator_bytes: of what their gradients are added up in, beside the arena.
    """

    arena_bytes: int
    time: float
    calls: int
    repeated: int
    micro_batches: int = 1
    accumulator_bytes: int = 0

    @property
    def budget_bytes(self) -> int:
        """A budget of so many bytes is met by this."""
        return self.arena_bytes + self.accumulator_bytes


@dataclass(frozen=True)
class Frontier:
    """All ways of which none is both slower and larger than another one.

    Attributes:
        points: the fastest first: the step as it is.
        lower_bound_bytes: no budget below it can be met: what the largest call reads and writes.
        parameter_bytes: of weights and running statistics, beside the arena.
        optimizer_bytes: of state and averages, beside the arena and the accumulators of points.
        refusal: why the step cannot run as micro-batches; empty where it can.
        segments: for comparison, what checkpoints of segments alone reach for the step as a whole
            (Chen et al., 2016): peaks in place of arenas, which are never smaller.
    """

    points: tuple[Point, ...]
    lower_bound_bytes: int
    parameter_bytes: int
    optimizer_bytes: int
    refusal: str = ""
    segments: tuple[Point, ...] = ()


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
    cuts = Cuts(read_source(model, target, options, progress), progress)
    every = list(cuts)
    progress("look for plans")
    step = every[0].made.step
    return Frontier(
        tuple(_point(way, every[0]) for way in ways(every)),
        min(_lower_bound(cut.problem) + cut.beside for cut in every),
        step.nbytes_of(*WEIGHT_ROLES),
        step.nbytes_of(Role.STATE, Role.AVERAGE) - step.accumulator_bytes,
        cuts.refusal,
        tuple(_segments(every[0].problem)),
    )


def _segments(problem: Recomputation) -> Iterator[Point]:
    """Points by checkpoints of segments, of which none is slower and larger than another one."""
    whole, least = sum(problem.seconds), None
    plans = (plan_of(problem, sequence) for sequence in segmented(problem))
    for plan in sorted(plans, key=lambda each: (each.seconds, each.peak)):
        if least is None or plan.peak < least:
            least, calls = plan.peak, len(plan.sequence)
            again = calls - len(problem.seconds)
            yield Point(least, plan.seconds / whole, calls, again)


def _point(way: Way[Prepared], first: Cut[Prepared]) -> Point:
    calls, once = len(way.plan.sequence), len(way.cut.problem.seconds)
    time = way.seconds / first.seconds
    return Point(way.arena_bytes, time, calls, calls - once, way.cut.count, way.cut.beside)


def _lower_bound(problem: Recomputation) -> int:
    tasks, sizes = problem.tasks.tasks, problem.tasks.sizes
    return max(
        (sum(sizes[each] for each in {*task.allocates, *task.reads}) for task in tasks), default=0
    )
