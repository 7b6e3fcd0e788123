"""The training step of a model, and what some passes make of it: what `odtc opt` shows.

model ─read, normalise, differentiate─→ training graph ─passes─→ module; nothing is compiled
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import tvm

from odtc.autoschedule.table import SCHEDULE_PASSES, schedule_passes
from odtc.backends.families import family_of
from odtc.backends.pipeline.known import known_passes
from odtc.backends.pipeline.options import PipelineOptions
from odtc.backends.pipeline.phases import pipeline_of
from odtc.backends.targets import Target
from odtc.backends.vector_math import register_vector_math
from odtc.core.errors import UsageError
from odtc.core.process.one_at_a_time import one_at_a_time
from odtc.core.process.progress import Progress
from odtc.core.process.quick import without_collections
from odtc.driver.drafts.fitting import wants_mixed
from odtc.driver.drafts.lengths import at_lengths
from odtc.driver.drafts.source import read_source
from odtc.driver.layouts import layout_choice
from odtc.driver.options.step_options import StepOptions
from odtc.driver.parts import Parts
from odtc.driver.training import differentiate, rewrites_of
from odtc.frontend.training import TRAIN_STEP
from odtc.passes.contract import PassError, Pipeline, run_pipeline
from odtc.passes.pipeline.text import parse_pipeline, require_among

# What is given in place of passes for those of a compile.
USUAL = "default"
_WITHIN_BUDGETS = ("offload", "allow_half_activations")


@dataclass(frozen=True)
class PassChoice:
    """Which passes run.

    Attributes:
        text: of the pipeline, or `USUAL`.
        stop_after: the pass after which nothing runs any more, where it first runs; None for all.
    """

    text: str = USUAL
    stop_after: str | None = None

    def passes(self, of: PipelineOptions) -> Pipeline:
        """The passes.

        Raises:
            UsageError: the text is malformed, or a pass is none of them.
        """
        usual = self.text.strip() == USUAL
        known = {**SCHEDULE_PASSES, **known_passes(of)}
        chosen = pipeline_of(of) if usual else parse_pipeline(self.text, known)
        if self.stop_after is None:
            return chosen
        titles = [each.title for each in chosen]
        require_among([self.stop_after], titles)
        return chosen[: titles.index(self.stop_after) + 1]


def pipeline_options(target: Target, options: StepOptions) -> PipelineOptions:
    """The options of a step's pipeline, as far as they are known without its model.

    Args:
        target: what the step is for, resolved.
        options: of the step.

    Raises:
        UsageError: an option needs a budget of memory, or is none.
    """
    for name in _WITHIN_BUDGETS:
        if getattr(options, name):
            raise UsageError(
                "it is only for a step with a memory budget; here, passes run without one",
                where=name,
                hint="leave it out; `odtc compile --print-ir-after` takes a --memory-budget",
            )
    mixed = wants_mixed(options)
    has_half = mixed and target.has_half_arithmetic
    layouts = layout_choice(target, options.layout, is_mixed=mixed, is_tight=False)
    return PipelineOptions(
        family_of(target, has_half=has_half),
        TRAIN_STEP,
        rewrites_of(target, layouts, saves_half=mixed, has_half=has_half),
        schedule=schedule_passes(target),
    )


@one_at_a_time
@without_collections()
def opt_module(
    model: str | Path, target: Target, options: StepOptions, choice: PassChoice, progress: Progress
) -> tvm.IRModule:
    """Runs passes over the training step of a model, and its evaluations.

    Args:
        model: path of the ONNX file.
        target: what the step is for.
        options: of the step; without a budget of memory.
        choice: of passes.
        progress: called with the name of each stage as it starts.

    Raises:
        OdtcError: as of `odtc.compile`.
        UsageError: the passes cannot run in the order that is asked for.
    """
    source, *_ = at_lengths(read_source(model, target, options, progress))
    parts = Parts(source)
    step = differentiate(parts.draft(parts.fewest), progress, parts.evaluated(parts.fewest))
    of = replace(
        pipeline_options(source.target, options),
        family=family_of(source.target, has_half=source.has_half, records=source.measured.records),
        origins=step.training.origins,
    )
    passes = choice.passes(of)
    progress("run the passes")
    register_vector_math()
    try:
        with source.target.to_tvm():
            return run_pipeline(passes, step.training.module)
    except PassError as error:
        if passes == pipeline_of(of)[: len(passes)]:
            raise
        raise UsageError(
            f"the passes cannot run in this order: {error}",
            hint="`odtc opt --list` prints the order that a compile uses",
        ) from error


def described(passes: Pipeline) -> list[Mapping[str, str]]:
    """Each pass as text, and the first line of what is said of it."""
    return [{"pass": str(each), "description": _first_line(each)} for each in passes]


def _first_line(each: object) -> str:
    made = getattr(each, "make", type(each))
    return (made.__doc__ or "").strip().partition("\n")[0]
