"""`find_frontier`: what a step can be made to take in memory, and what that costs in time.

prepare -> kernels -> order of calls -> Recomputation -> plans, for each number of micro-batches
and each form of kernels; nothing is compiled
"""

import os
from collections.abc import Iterator, Sequence

from odtc.backends.targets import CPU, MOST_THREADS, Target, gpu_of
from odtc.core.process.one_at_a_time import one_at_a_time
from odtc.core.process.progress import Progress
from odtc.core.process.quick import without_collections
from odtc.core.specs import WEIGHT_ROLES, Role
from odtc.driver.drafts.lengths import at_lengths
from odtc.driver.drafts.source import read_source
from odtc.driver.frontier import WITHOUT, AtLength, Frontier, Least, Point
from odtc.driver.options.step_options import StepOptions
from odtc.driver.splitting import Cuts, Planned
from odtc.passes.checkpoint.cuts import Cut, Way, ways
from odtc.passes.checkpoint.frontier import STRATEGIES, best_of
from odtc.passes.checkpoint.problem import Recomputation, highest_of, plan_of
from odtc.passes.checkpoint.region import region_of
from odtc.passes.checkpoint.stage_program import StageProgram

# For how many the least time is told.
_BUDGETS = 40
# For which numbers of threads it is told what a step takes.
_THREADS = (1, 2, 4, MOST_THREADS)


@one_at_a_time
@without_collections()
def find_frontier(
    model: str | os.PathLike[str],
    target: Target,
    options: StepOptions,
    count: int | None,
    progress: Progress,
) -> Frontier:
    """Finds what memory budgets a step can meet, and how; see `odtc.plan`."""
    # What is planned here are steps within budgets.
    sources = at_lengths(read_source(model, target, options, progress, is_tight=True))
    cuts = Cuts(sources[0], progress, for_plans=True)
    every = list(cuts)
    others = [[*Cuts(each, progress, for_plans=True)] for each in sources[1:]]
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
        *_by_threads(cuts, target),
        tuple(map(_at_length, (every, *others) if others else ())),
        modelled_for(target),
    )


def modelled_for(target: Target) -> str:
    """The GPU whose rates the model of times has; empty for a CPU."""
    if target.kind == CPU:
        return ""
    unknown = f" (no rates of {target.gpu} are known)" if target.gpu else ", whichever it is"
    return gpu_of(target).rates.known or f"a phone's GPU{unknown}"


def _at_length(cuts: Sequence[Cut[Planned]]) -> AtLength:
    fastest, *_, smallest = [*ways(cuts, 2)] * 2
    draft = cuts[0].made.step.draft
    length = draft.source.length
    tokens = draft.batch * length
    return AtLength(length, tokens, fastest.arena_bytes, smallest.arena_bytes, fastest.seconds)


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


def _by_threads(cuts: Cuts, target: Target) -> tuple[int | None, dict[int, int]]:
    """For how many threads the step is planned, and what it would take for other numbers."""
    if target.kind != CPU:
        return None, {}
    threads = target.resolved().threads or 1
    of_others = {each: cuts.peak_for(each) for each in _THREADS if each != threads}
    problem = next(iter(cuts)).problem
    own = plan_of(problem, range(len(problem.seconds))).peak
    return threads, dict(sorted({**of_others, threads: own}.items()))


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
