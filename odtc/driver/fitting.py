"""How a step runs within a budget: in micro-batches, with which calls again, saving what.

Source ─→ Cuts ─fastest─→ Planned, Plan ─build─→ Built

Or by several plans, between which a run may change; these differ in the calls that run again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from odtc.backends.built import Built
from odtc.backends.lowering import Lowered, compile_planned
from odtc.backends.objects.outlines import NotKeptError, Outlines
from odtc.core.errors import BudgetError
from odtc.core.process.progress import Progress
from odtc.driver.drafts.source import Source
from odtc.driver.splitting import Cuts, Planned
from odtc.driver.training import Step
from odtc.passes.checkpoint.cuts import USUAL, Cut, KernelForm, fastest
from odtc.passes.checkpoint.frontier import lowest_of
from odtc.passes.checkpoint.plans.spread import spread
from odtc.passes.checkpoint.problem import highest_of


@dataclass(frozen=True)
class BuiltPlans:
    """A compiled step.

    Attributes:
        step: its training graph.
        built: the module.
        times: of its plans, over that of the first.
        measured: what is said of calls whose times were measured; empty where none was.
        form: of the kernels, which may be others than without a budget.
    """

    step: Step
    built: Built
    times: Sequence[float] = (1.0,)
    measured: str = ""
    form: KernelForm = USUAL


def build_step(source: Source, budget: int | str | None, progress: Progress) -> BuiltPlans:
    """Decides how a step runs, and compiles it.

    Args:
        source: what it is made from.
        budget: bytes of its arena, and of accumulators that only micro-batches need; None for as
            many as it takes; `AUTO` for several plans, of which the run chooses.
        progress: called with the name of each stage as it starts.

    Raises:
        BudgetError: no plan is found that fits.
        UsageError: the micro-batches that are asked for do not divide the batch.
        UnsupportedError: the step cannot run as so many micro-batches.
    """
    if budget is None:
        return BuiltPlans(*Cuts(source, progress).build_first())
    (made,) = build_together([source], budget, progress)
    return made


def build_together(
    sources: Sequence[Source], budget: int | str | None, progress: Progress
) -> Sequence[BuiltPlans]:
    """The same for steps that share a library, which TVM runs the first of alone.

    Args:
        sources: what they are made from, for the same target.
        budget: of each.
        progress: called with the name of each stage as it starts.
    """
    try:
        return _together(sources, budget, progress, Outlines.KEPT)
    except NotKeptError:
        return _together(sources, budget, progress, Outlines.ANEW)


def _together(
    sources: Sequence[Source], budget: int | str | None, progress: Progress, outlines: Outlines
) -> Sequence[BuiltPlans]:
    longest, *shorter = sources
    first = _fitted(longest, budget, progress, outlines)
    # Accumulators are the same at each length, and so is what part of a step a call is.
    count = first.step.draft.micro_batches
    others = [_in_parts(each, count) for each in shorter]
    fitted = [first, *(_fitted(each, budget, progress, outlines) for each in others)]
    progress("compile the kernels")
    lowered = [each.lowered for each in fitted]
    every = compile_planned(lowered, sources[0].target, apart=True)
    return [
        BuiltPlans(each.step, built, each.times, each.measured, each.form)
        for each, built in zip(fitted, every, strict=True)
    ]


def _in_parts(source: Source, count: int) -> Source:
    """A source whose step runs as so many micro-batches."""
    return replace(source, options=replace(source.options, micro_batches=count))


@dataclass(frozen=True)
class _Fitted:
    """A step that is to be compiled; see `BuiltPlans`."""

    step: Step
    lowered: Lowered
    times: Sequence[float] = (1.0,)
    measured: str = ""
    form: KernelForm = USUAL


def _fitted(
    source: Source, budget: int | str | None, progress: Progress, outlines: Outlines
) -> _Fitted:
    cuts = Cuts(source, progress)
    if budget is None:
        return _Fitted(*cuts.lower_first(outlines))
    if isinstance(budget, str):
        return _offered(next(iter(cuts)), progress)
    return _within(source, cuts, budget, progress)


def _offered(cut: Cut[Planned], progress: Progress) -> _Fitted:
    """The step by several plans, from the fastest to the smallest."""
    progress("look for plans")
    plans = spread(cut.problem)
    times = [plan.seconds / plans[0].seconds for plan in plans]
    return _Fitted(cut.made.step, cut.made.lower(plans), times, cut.problem.measured_part)


def _within(source: Source, cuts: Cuts, budget: int, progress: Progress) -> _Fitted:
    """The step as it is fastest within a budget."""
    progress("look for plans")
    found = fastest(cuts.within(budget), budget)
    if found is None:
        raise _too_small(source, cuts, budget, progress)
    made, form = found.cut.made, found.cut.form
    if cuts.refusal:
        made.step.draft.graph.notes.append(f"no micro-batches: {cuts.refusal}")
    measured = found.cut.problem.measured_part
    return _Fitted(made.step, made.lower([found.plan]), measured=measured, form=form)


def _too_small(source: Source, cuts: Cuts, budget: int, progress: Progress) -> BudgetError:
    """The error for a budget that nothing fits: the least one, and what sets it."""
    cut = min(cuts, key=lambda cut: cut.floor)
    task = highest_of(cut.problem, lowest_of(cut.plans))
    mixed = "" if source.saves_half else " or --precision mixed"
    hint = f"give a larger budget, a smaller batch{mixed}, or freeze layers"
    return BudgetError(
        f"the step needs at least {cut.floor:,} bytes in addition to its parameters; the budget "
        f"is {budget:,}",
        where=cut.made.name_of(task),
        hint=f"{hint}{_way_out(source, cuts, cut.floor, progress)}",
        least=cut.floor,
    )


def _way_out(source: Source, cuts: Cuts, least: int, progress: Progress) -> str:
    """How micro-batches would need less, where only batch normalisations keep from them."""
    options = source.options
    if not cuts.refusal or not cuts.has_batch_norms or options.allow_split_batchnorm:
        return ""
    allowed = replace(source, options=replace(options, allow_split_batchnorm=True))
    for cut in Cuts(allowed, progress, for_plans=True):
        if cut.count > 1 and cut.floor < least:
            return (
                f"; --allow-split-batchnorm lowers that: {cut.count} micro-batches need "
                f"{cut.floor:,} bytes, and batch normalisations take the statistics of each"
            )
    return ""
