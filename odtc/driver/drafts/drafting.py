"""Makes drafts of a source: sizes, losses, what is trained; then fewer, simpler operators.

specialise -> join losses -> choose -> check -> normalise -> find the samples
"""

import dataclasses

from odtc.core.options.idle import said_of_idle
from odtc.driver.drafts.chosen import choose, wanted
from odtc.driver.drafts.draft import Draft
from odtc.driver.drafts.idle import ADAPTERS_DROP, OF_DRAFT, Sketched
from odtc.driver.drafts.lengths import require_no_statistics
from odtc.driver.drafts.placing import Placing
from odtc.driver.drafts.source import Source
from odtc.frontend.coverage import require_trainable
from odtc.frontend.file.specialize import require_places, specialize
from odtc.frontend.graph import drop_unread_inputs
from odtc.frontend.losses.counted import find_counted
from odtc.frontend.losses.given import InModel
from odtc.frontend.losses.loss import SUM
from odtc.frontend.losses.objective import Aim, Objective, join_losses
from odtc.frontend.losses.weighing import is_weighed, note_of
from odtc.frontend.normalize.pipeline import normalize
from odtc.frontend.normalize.structure import note_batch_norms
from odtc.frontend.operators.elements.dropout import set_dropout
from odtc.frontend.trained.dora import set_magnitudes
from odtc.frontend.trained.narrow import narrow_frozen
from odtc.frontend.trained.quantise import frozen_axes, quantise_frozen
from odtc.frontend.trained.stored_codes import put_codes, set_codes_apart
from odtc.frontend.weights.finite import note_of_nan, require_finite


def draft_of(source: Source, batch: int | None = None, micro_batches: int = 1) -> Draft:
    """A step before it has gradients.

    Args:
        source: what it is made from.
        batch: samples of a step, which micro-batches divide; what the options say if None.
        micro_batches: how many of them make a step.
    """
    return complete(sketch_of(source, batch, micro_batches))


def evaluated_draft_of(source: Source, samples: int) -> Draft:
    """A draft that is only evaluated, for another number of samples than a step has.

    Args:
        source: of a step whose samples are found.
        samples: that are evaluated at once.
    """
    return _normalised(sketch_of(source, samples))


def sketch_of(source: Source, batch: int | None = None, micro_batches: int = 1) -> Draft:
    """A draft of the model's own nodes, of which nobody knows yet whether they can be trained.

    See `draft_of` for the arguments.
    """
    samples = None if batch is None else batch // micro_batches
    if source.axes is not None:
        return _sketch(source, samples, micro_batches)
    return _PLACING.likeliest(source)


def complete(sketch: Draft) -> Draft:
    """The sketch with its graph normalised, in place, and the samples of the batch found in it.

    Raises:
        UnsupportedError: nodes cannot be trained.
        UsageError: the user says that the samples are where they are not.
    """
    draft = _normalised(sketch)
    return draft if draft.micro_batches > 1 else _PLACING.located(draft)


def _sketch(source: Source, samples: int | None = None, micro_batches: int = 1) -> Draft:
    options = source.options
    graph = specialize(
        source.model,
        promoted=wanted(options)[0],
        asked=source.asked,
        axes=source.axes,
        samples=samples,
        read=source.read,
    )
    require_places(graph, source.model)
    has_dropout = set_dropout(graph, options.dropout, options.seed)
    objective = join_losses(graph, source.terms)
    selection, adapters = choose(graph, options)
    graph.forget_losses([*selection.trained, *(each.weight for each in adapters)])
    sketched = Sketched(source, graph, selection, has_dropout, adapters)
    graph.tell_idle(said_of_idle(OF_DRAFT, sketched))
    if has_dropout and sketched.has_dropping and not options.dropout:
        graph.notes.append(f"dropout is off in the model alone: {ADAPTERS_DROP}")
    require_no_statistics(source, selection.arguments(graph))
    require_finite(graph.parameters, selection.trained, source.broken)
    if said := note_of_nan(source.read.parameters, source.broken):
        graph.lost[said] = ()
        graph.notes.append(said)
    note_batch_norms(graph, selection.still)
    shared = _shared(source, objective, micro_batches)
    steps = source.update.accumulate > 1
    if steps and (said := note_of(objective.aims, several_lengths=source.length > 0)):
        graph.notes.append(said)
    return Draft(source, graph, shared, selection, adapters, micro_batches)


def _normalised(sketch: Draft) -> Draft:
    source, graph, selection = sketch.source, sketch.graph, sketch.selection
    form = source.form
    require_trainable(graph, sketch.reports)
    axes = frozen_axes(graph, selection) if form else {}
    set_codes_apart(graph, source.kept)
    if [type(aim.loss) for aim in sketch.objective.aims] == [InModel]:
        graph.counted = find_counted(graph, graph.outputs[0])
    normalize(graph)
    drop_unread_inputs(graph)
    if form:
        quantise_frozen(graph, axes, form, source.rounded, source.broken)
    put_codes(graph, source.kept)
    narrow_frozen(graph, source.read.parameters, selection)
    set_magnitudes(graph, sketch.adapters)
    return sketch


_PLACING = Placing(_sketch, _normalised)


def _shared(source: Source, objective: Objective, micro_batches: int) -> Objective:
    """The losses of a micro-batch, whose mean over all of them is that of the batch."""
    calls = source.update.accumulate * micro_batches
    weighed = calls > 1 and is_weighed(objective.aims, several_lengths=source.length > 0)

    def share(aim: Aim) -> Aim:
        sums = micro_batches > 1 and aim.loss.parts() == SUM
        return dataclasses.replace(aim, weight=aim.weight * micro_batches) if sums else aim

    aims = tuple(map(share, objective.aims))
    return dataclasses.replace(objective, aims=aims, weighed=micro_batches if weighed else 0)
