"""`plan_model`: what a step can be made to take in memory, and what that costs in time.

prepare -> kernels -> order of calls -> Recomputation -> plans, for each number of micro-batches
and each form of kernels; nothing is compiled
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Unpack

from odtc.backends.targets import Target
from odtc.core.options.arguments import takes
from odtc.core.options.kinds import FUNCTION, optional, whole_from
from odtc.core.process.one_at_a_time import one_at_a_time
from odtc.core.process.progress import Progress, silent
from odtc.core.process.quick import without_collections
from odtc.core.specs import WEIGHT_ROLES, Role
from odtc.driver.preparation import read_source
from odtc.driver.splitting import Cuts, Planned
from odtc.driver.step_arguments import MODEL_AND_TARGET, STEP
from odtc.driver.step_options import StepOptions
from odtc.passes.checkpoint.cuts import Cut, Way, ways
from odtc.passes.checkpoint.frontier import STRATEGIES, best_of
from odtc.passes.checkpoint.problem import Recomputation, highest_of, plan_of
from odtc.passes.checkpoint.region import region_of
from odtc.passes.checkpoint.stage_program import StageProgram

# Name of the plans in which no tensor waits in storage.
WITHOUT = "without offload"
# For how many the least time is told.
_BUDGETS = 40


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
        stored_bytes: of the file in which tensors wait.
        half: whether what the backward pass reads of the forward pass is stored as float16.
        direct: whether no convolution is in Winograd's form, which takes workspaces.
    """

    arena_bytes: int
    time: float
    calls: int
    repeated: int
    micro_batches: int = 1
    accumulator_bytes: int = 0
    stored_bytes: int = 0
    half: bool = False
    direct: bool = False

    @property
    def budget_bytes(self) -> int:
        """A budget of so many bytes is met by this."""
        return self.arena_bytes + self.accumulator_bytes


@dataclass(frozen=True)
class Least:
    """A lower bound of the time of plans within a budget.

    Attributes:
        budget_bytes: of the arena.
        time: as of `Point`.
    """

    budget_bytes: int
    time: float


@dataclass(frozen=True)
class Frontier:
    """All ways of which none is both slower and larger than another one.

    Attributes:
        points: the fastest first: the step as it is.
        lower_bound_bytes: no budget below it can be met: what the largest call reads and writes.
        parameter_bytes: of weights and running statistics, beside the arena.
        optimizer_bytes: of state and averages, beside the arena and the accumulators of points.
        refusal: why the step cannot run as micro-batches; empty where it can.
        strategies: for comparison, what known ways reach alone for the step as a whole, by name:
            peaks in place of arenas, which are never smaller. Where tensors may wait in storage,
            `WITHOUT` is what is reached without that.
        least: no plan of the step as a whole, in single precision, is faster.
        measured_calls: of the step as it is, those whose times were measured; a model of the target
            says the others.
    """

    points: tuple[Point, ...]
    lower_bound_bytes: int
    parameter_bytes: int
    optimizer_bytes: int
    refusal: str = ""
    strategies: Mapping[str, tuple[Point, ...]] = field(default_factory=dict)
    least: tuple[Least, ...] = ()
    measured_calls: int = 0


@takes("odtc.plan", STEP, **MODEL_AND_TARGET, count=optional(whole_from(1)), progress=FUNCTION)
@one_at_a_time
@without_collections()
def plan_model(
    model: str | os.PathLike[str],
    target: str | Target = "host-cpu",
    *,
    count: int | None = None,
    progress: Progress = silent,
    **options: Unpack[StepOptions],
) -> Frontier:
    """Finds what memory budgets a step can meet, and how.

    Args:
        model: path of the ONNX file.
        target: as of `odtc.compile`.
        count: of points, about, as far from each other in bytes, where all would be too many: of a
            deep network, most of the time goes into their arenas.
        progress: called with the name of each stage as it starts.
        options: as of `odtc.compile`.

    Raises:
        OdtcError: as of `odtc.compile`.
    """
    # What is planned here are steps within budgets.
    source = read_source(model, target, options, progress, is_tight=True)
    cuts = Cuts(source, progress, for_plans=True)
    every = list(cuts)
    progress("look for plans")
    step, problem = every[0].made.step, every[0].problem
    known = {name: tuple(_alone(name, problem)) for name in STRATEGIES}
    if problem.storage:
        known[WITHOUT] = tuple(_without_storage(every[0]))
    return Frontier(
        tuple(_point(way, every[0]) for way in ways(every, count)),
        min(cut.problem.largest + cut.beside for cut in every),
        step.nbytes_of(*WEIGHT_ROLES),
        step.nbytes_of(Role.STATE, Role.AVERAGE) - step.accumulator_bytes,
        cuts.refusal,
        known,
        tuple(_least(problem)),
        problem.measured,
    )


def _alone(name: str, problem: Recomputation) -> Iterator[Point]:
    """Points by one strategy."""
    whole, once = sum(problem.seconds), len(problem.seconds)
    for plan in best_of(plan_of(problem, each) for each in STRATEGIES[name](problem)):
        calls = len(plan.sequence)
        yield Point(plan.peak, plan.seconds / whole, calls, calls - once)


def _without_storage(cut: Cut[Planned]) -> Iterator[Point]:
    """Points of plans that store nothing."""
    plans = (p for p in cut.plans if not any(map(cut.problem.is_copy, p.sequence)))
    whole, once = sum(cut.problem.seconds), len(cut.problem.seconds)
    for plan in best_of(plans):
        calls = len(plan.sequence)
        yield Point(plan.peak, plan.seconds / whole, calls, calls - once)


def _least(problem: Recomputation) -> Iterator[Least]:
    """Lower bounds by budget, of the moment at which most bytes are alive."""
    first, whole = plan_of(problem, range(len(problem.seconds))), sum(problem.seconds)
    stage = StageProgram(problem, highest_of(problem, first))
    for part in range(_BUDGETS, 0, -1):
        limit = first.peak * part // _BUDGETS
        choice = stage.cheapest(limit)
        if choice is None:
            return
        yield Least(limit, 1 + choice.seconds / whole)


def _point(way: Way[Planned], first: Cut[Planned]) -> Point:
    problem, time = way.cut.problem, way.seconds / first.seconds
    calls = len(way.plan.sequence) - sum(map(problem.is_copy, way.plan.sequence))
    again, stored = calls - len(problem.seconds), region_of(problem, way.plan).nbytes
    cut, form = way.cut, way.cut.form
    return Point(
        way.arena_bytes, time, calls, again, cut.count, cut.beside, stored, form.half, form.direct
    )
