"""`build`: from an ONNX file to the members of an artifact.

read -> decide on micro-batches and recomputation -> lower and build -> link -> seal
"""

from collections.abc import Sequence
from pathlib import Path

from odtc.backends.objects.link import find_linker
from odtc.backends.targets import Target
from odtc.core.artifact.bundle import file_sha256
from odtc.core.disk.files import private_folder
from odtc.core.disk.left_behind import remove_folder
from odtc.core.disk.mapped_arrays import leave_pages
from odtc.core.errors import UsageError
from odtc.core.options.byte_sizes import AUTO
from odtc.core.options.idle import said_of_idle
from odtc.core.process.one_at_a_time import one_at_a_time
from odtc.core.process.progress import Progress
from odtc.core.process.quick import without_collections
from odtc.driver.drafts.idle import OF_STEP, Finished
from odtc.driver.drafts.lengths import at_lengths, not_with_lengths
from odtc.driver.drafts.source import Source, read_source
from odtc.driver.fitting import BuiltPlans, build_step, build_together
from odtc.driver.lengths import check_alike
from odtc.driver.options.step_options import StepOptions
from odtc.driver.sealed.notes import notes_on
from odtc.driver.sealed.sealing import seal
from odtc.step_cache.store import KeptStep


@one_at_a_time
@without_collections()
def build(
    model: Path,
    target: Target,
    options: StepOptions,
    budget: int | str | None,
    progress: Progress,
) -> KeptStep:
    """Builds the training step of a model; see `odtc.compile` for the arguments and errors.

    Args:
        model: path of the ONNX file.
        target: what to compile for.
        options: of the step.
        budget: bytes for its tensors, `auto` for several plans, or None.
        progress: called with the name of each stage as it starts.
    """
    source = read_source(model, target, options, progress, is_tight=budget is not None)
    leave_pages(source.arrays.values())
    # It may be another file by the time that the step is built.
    digest = file_sha256(model)
    if options.allow_half_activations:
        _check_half_activations(budget)
    sources = at_lengths(source)
    if len(sources) > 1 and budget == AUTO:
        raise not_with_lengths("several plans for each: memory_budget auto")
    # It is needed last, after minutes of compiling.
    find_linker(target)
    made = _built(sources, budget, progress)
    leave_pages(source.arrays.values())
    graph = made[0].step.draft.graph
    graph.notes += notes_on(source, made, budget)
    graph.tell_idle(said_of_idle(OF_STEP, _finished(source, made[0])))

    progress("link")
    root = private_folder()
    try:
        return KeptStep(seal(made, model, digest, root), (*graph.lost, *graph.idle))
    except BaseException:
        remove_folder(root)
        raise


def _built(
    sources: Sequence[Source], budget: int | str | None, progress: Progress
) -> Sequence[BuiltPlans]:
    """The step at each of its lengths, the longest first."""
    if len(sources) == 1:
        return [build_step(sources[0], budget, progress)]
    made = build_together(sources, budget, progress)
    check_alike(made)
    return made


def _finished(source: Source, made: BuiltPlans) -> Finished:
    """What is known of a step, for what is said of options that changed nothing of it."""
    draft, built = made.step.draft, made.built
    samples = draft.batch // draft.micro_batches
    return Finished(
        source,
        draft.micro_batches,
        samples,
        stored_bytes=built.stored_bytes,
        is_half=made.form.half,
        is_measured=bool(built.tuned or made.measured),
    )


def _check_half_activations(budget: int | str | None) -> None:
    """Checks that there is one budget to keep within.

    Raises:
        UsageError: there is none, or there are several plans.
    """
    if budget is None:
        raise UsageError(
            "activations are stored as float16 only to keep within a budget, and no budget is "
            "given",
            where="allow_half_activations",
            hint="give a memory budget, such as 64MiB; --precision mixed needs none",
        )
    if budget == AUTO:
        raise UsageError(
            "the plans of auto give bit-identical results, which plans with float16 would not",
            where="allow_half_activations",
            hint="give a memory budget in bytes; --precision mixed can be combined with auto",
        )
