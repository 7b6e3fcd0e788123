"""From an ONNX file to the training graph: what `odtc.compile` and `odtc plan` begin with.

load -> specialise -> normalise -> training graph

A `Draft` is what there is before gradients: cheap enough to be made for several batches, to compare
them.
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from odtc.autoschedule.tuning.target_records import records_for
from odtc.backends.cost.measured_times import NOTHING, MeasuredTimes
from odtc.backends.decisions import RecordLookup, no_records
from odtc.backends.targets import CPU, Target, parse_target
from odtc.core.adapters import Adapter
from odtc.core.disk.files import check_room
from odtc.core.errors import UnsupportedError, UsageError
from odtc.core.process.progress import Progress
from odtc.core.specs import Role
from odtc.driver.layouts import DEFAULT, NATIVE, LayoutChoice, layout_choice
from odtc.driver.placing import Placing
from odtc.driver.step_options import StepOptions
from odtc.frontend.coverage import NodeReport, check_graph, require_trainable
from odtc.frontend.feeds import Axes, InputOptions
from odtc.frontend.file.onnx_file import load_model, modern
from odtc.frontend.file.specialize import read_graph, require_places, specialize
from odtc.frontend.graph import Graph, drop_unread_inputs, samples_of
from odtc.frontend.losses.loss import SUM
from odtc.frontend.losses.objective import Aim, Objective, join_losses
from odtc.frontend.losses.terms import Term, terms_of
from odtc.frontend.normalize.pipeline import normalize
from odtc.frontend.normalize.structure import note_batch_norms
from odtc.frontend.operators.elements.dropout import set_dropout
from odtc.frontend.optimizers.sgd import SGD
from odtc.frontend.optimizers.update import Update, as_update
from odtc.frontend.trained.lora import adapt, parse_lora
from odtc.frontend.trained.selection import Selection, select
from odtc.frontend.training import (
    TRAIN_STEP,
    TrainingGraph,
    build_training_graph,
    try_training_graph,
)
from odtc.frontend.weights.finite import not_finite, require_finite

if TYPE_CHECKING:
    from odtc.passes.contract import Pipeline

PRECISIONS = ("float32", "mixed")
# Bytes that object files and the linker may take, beside the weights. LLVM aborts the process when
# it runs out of room.
ROOM = 64 << 20


@dataclass(frozen=True)
class Source:
    """The source of a step, whatever its batch.

    Attributes:
        model: as it was read; elements of large tensors are in its file.
        target: what to compile for.
        options: as the user gave them.
        terms: of the loss.
        update: the update rule with what is around it.
        has_half: whether products may multiply float16.
        saves_half: whether what the backward reads is stored as float16.
        offload: whether tensors may wait in a file.
        records: what is known of kernels that were measured.
        times: what calls of them were measured to take.
        layouts: of images, as `odtc/driver/layouts.py` reads them.
        axes: of the inputs, along which the samples lie; None before it is known.
        read: the model's graph as it was read, whose arrays all drafts share.
        broken: names of its weights that are not finite.
    """

    model: onnx.ModelProto
    target: Target
    options: StepOptions
    terms: Sequence[Term]
    update: Update
    has_half: bool
    saves_half: bool
    offload: bool = False
    records: RecordLookup = no_records
    layouts: LayoutChoice = NATIVE
    times: MeasuredTimes = NOTHING
    axes: Axes | None = None
    read: Graph | None = None
    broken: frozenset[str] = frozenset()

    @property
    def arrays(self) -> Mapping[str, np.ndarray]:
        """The model's tensors by name, as they were read."""
        return {**self.read.constants, **self.read.parameters} if self.read else {}

    @property
    def asked(self) -> InputOptions:
        """The user's options for the inputs."""
        options = self.options
        return InputOptions(
            options.get("batch"),
            options.get("shape") or {},
            options.get("batch_axes") or {},
            options.get("set_inputs") or {},
        )


@dataclass(frozen=True)
class Draft:
    """A step before it has gradients.

    Attributes:
        source: what it is made from.
        graph: of the model; normalised once `complete` has been through.
        objective: the losses on its outputs.
        selection: what is trained.
        adapters: that were added.
        micro_batches: how many of them the step takes; the graph is of one of them.
    """

    source: Source
    graph: Graph
    objective: Objective
    selection: Selection
    adapters: tuple[Adapter, ...]
    micro_batches: int

    @property
    def batch(self) -> int:
        """Samples in a step."""
        return samples_of(self.graph) * self.micro_batches

    @cached_property
    def reports(self) -> Sequence[NodeReport]:
        """Reports on each node of the model: asked before the graph is normalised."""
        return check_graph(self.graph, self.selection.trained)


@dataclass(frozen=True)
class Step:
    """A training graph, and what it was made from.

    Attributes:
        source: what it was made from.
        draft: that it is the training graph of.
        training: the training graph.
    """

    source: Source
    draft: Draft
    training: TrainingGraph

    @property
    def kernels(self) -> tuple[Any, ...]:
        """Arguments of lowering to kernels: module, target, training step, schedule, rewrites."""
        # Kernels come with them, which a dry run goes without.
        from odtc.autoschedule.table import schedule_passes

        source = self.source
        rewrites = rewrites_of(source.target, source.layouts, saves_half=source.saves_half)
        schedule = schedule_passes(source.target)
        return self.training.module, source.target, TRAIN_STEP, schedule, rewrites

    @property
    def accumulator_bytes(self) -> int:
        """Bytes in which gradients are added up only because there are micro-batches."""
        if self.draft.micro_batches == 1 or self.source.update.accumulate > 1:
            return 0
        return sum(item.spec.nbytes for item in self.training.arguments if item.is_accumulator)

    def nbytes_of(self, *roles: Role) -> int:
        """Bytes of the arguments of these roles."""
        return sum(item.spec.nbytes for item in self.training.arguments if item.role in roles)


def rewrites_of(target: Target, layouts: LayoutChoice, *, saves_half: bool) -> "Pipeline":
    """The passes over the Relax operators of a step that its options ask for.

    Args:
        target: what it is compiled for.
        layouts: of images.
        saves_half: whether what the backward reads is stored as float16.
    """
    # Kernels come with them, which a dry run goes without.
    from odtc.passes.graph.half_storage import HalfStorage

    # Kernels of images with channels last read float32.
    return (HalfStorage(TRAIN_STEP),) if saves_half else layouts.passes(target)


def prepare(
    model: str | os.PathLike[str], target: str | Target, options: StepOptions, progress: Progress
) -> Step:
    """Makes the training graph of a model for whole batches.

    See `odtc.compile` for arguments and errors.
    """
    source = read_source(model, target, options, progress)
    return differentiate(draft_of(source), progress)


def read_source(
    model: str | os.PathLike[str],
    target: str | Target,
    options: StepOptions,
    progress: Progress,
    *,
    is_tight: bool = False,
) -> Source:
    """Reads a model and what is asked of it; see `odtc.compile` for other arguments and errors.

    Args:
        model: path of the ONNX file.
        target: what the step is compiled for.
        options: of the step.
        progress: called with the name of each stage as it starts.
        is_tight: whether the step has to keep within a budget, so that bytes are worth something.
    """
    target = parse_target(target) if isinstance(target, str) else target
    target = target.resolved()
    _check_offload(target, options)
    is_mixed = wants_mixed(options)
    has_half = is_mixed and target.has_half_arithmetic
    update = as_update(SGD() if (given := options.get("optimizer")) is None else given)
    if has_half and update.scaling is None:
        update = dataclasses.replace(update, loss_scale="dynamic")
    terms = terms_of(options.get("loss", "cross-entropy"))

    progress("read the model")
    onnx_model = load_model(model, in_file=True)
    check_room(ROOM + Path(model).stat().st_size)
    records, times = _known(target, options)
    read = read_graph(modern(onnx_model), _wanted(options)[0])
    return Source(
        onnx_model,
        target,
        options,
        terms,
        update,
        has_half,
        is_mixed,
        options.get("offload", False),
        records,
        layout_choice(
            target,
            options.get("layout", DEFAULT),
            is_mixed=is_mixed,
            is_tight=is_tight,
        ),
        times,
        read=read,
        broken=not_finite(read.parameters),
    )


def draft_of(source: Source, batch: int | None = None, micro_batches: int = 1) -> Draft:
    """A step before it has gradients.

    Args:
        source: what it is made from.
        batch: samples of a step, which micro-batches divide; what the options say if None.
        micro_batches: how many of them make a step.
    """
    return complete(sketch_of(source, batch, micro_batches))


def sketch_of(source: Source, batch: int | None = None, micro_batches: int = 1) -> Draft:
    """A draft of the model's own nodes, of which nobody knows yet whether they can be trained.

    See `draft_of` for the arguments.
    """
    samples = None if batch is None else batch // micro_batches
    if source.axes is not None:
        return _sketch(source, samples, micro_batches)
    return _PLACING.likeliest(source)


def _sketch(source: Source, samples: int | None = None, micro_batches: int = 1) -> Draft:
    options = source.options
    graph = specialize(
        source.model,
        promoted=_wanted(options)[0],
        asked=source.asked,
        axes=source.axes,
        samples=samples,
        read=source.read,
    )
    require_places(graph, source.model)
    set_dropout(graph, options.get("dropout", True), options.get("seed", 0))
    objective = join_losses(graph, source.terms)
    selection, adapters = _choose(graph, options)
    require_finite(graph.parameters, selection.trained, source.broken)
    note_batch_norms(graph, selection.still)
    shared = _shared(objective, micro_batches)
    return Draft(source, graph, shared, selection, adapters, micro_batches)


def complete(sketch: Draft) -> Draft:
    """The sketch with its graph normalised, in place, and the samples of the batch found in it.

    Raises:
        UnsupportedError: nodes cannot be trained.
        UsageError: the user says that the samples are where they are not.
    """
    draft = _normalised(sketch)
    return draft if draft.micro_batches > 1 else _PLACING.located(draft)


def _normalised(sketch: Draft) -> Draft:
    require_trainable(sketch.graph, sketch.reports)
    normalize(sketch.graph)
    drop_unread_inputs(sketch.graph)
    return sketch


_PLACING = Placing(_sketch, _normalised)


def differentiate(draft: Draft, progress: Progress) -> Step:
    """The training graph of a draft."""
    progress("differentiate")
    training = build_training_graph(
        draft.graph, draft.objective, _update_of(draft), draft.selection
    )
    return Step(draft.source, draft, training)


def try_to_differentiate(draft: Draft) -> None:
    """Raises what `differentiate` would, in less time."""
    try_training_graph(draft.graph, draft.objective, _update_of(draft), draft.selection)


def _update_of(draft: Draft) -> Update:
    """The update with the gradients of all micro-batches added up."""
    update = draft.source.update
    return dataclasses.replace(update, accumulate=update.accumulate * draft.micro_batches)


def _shared(objective: Objective, micro_batches: int) -> Objective:
    """The losses of a micro-batch, whose mean over all of them is that of the batch."""

    def share(aim: Aim) -> Aim:
        sums = micro_batches > 1 and aim.loss.parts() == SUM
        return dataclasses.replace(aim, weight=aim.weight * micro_batches) if sums else aim

    return dataclasses.replace(objective, aims=tuple(map(share, objective.aims)))


def _wanted(options: StepOptions) -> tuple[Sequence[str], Sequence[str]]:
    """The choice of trained and frozen parameters, as text."""
    params = options.get("params")
    if params is None:
        params = "*" if options.get("lora") is None else ()
    train, frozen = (
        (given,) if isinstance(given, str) else given
        for given in (params, options.get("freeze", ()))
    )
    return train, frozen


def _choose(graph: Graph, options: StepOptions) -> tuple[Selection, tuple[Adapter, ...]]:
    """The trained parameters, and the adapters that were added to the graph for it."""
    lora = options.get("lora")
    lora = parse_lora(lora) if isinstance(lora, str) else lora
    train, frozen = _wanted(options)
    if not train and not lora:
        raise UsageError(
            "params is an empty list: nothing would be trained",
            where="params",
            hint="give what to train, such as 'fc*'; leave it out to train all",
        )
    selection = select(graph, train, frozen, options.get("freeze_batch_norm", False))
    return adapt(graph, lora, selection) if lora else (selection, ())


def _known(target: Target, options: StepOptions) -> tuple[RecordLookup, MeasuredTimes]:
    """Records and times of measured kernels, unless the user wants none of them."""
    if not options.get("tuned", True):
        return no_records, NOTHING
    database = options.get("database")
    of = records_for(target, None if database is None else Path(database), options.get("device"))
    return of, of.times


def _check_offload(target: Target, options: StepOptions) -> None:
    if options.get("offload") and target.kind != CPU:
        raise UnsupportedError(
            f"tensors of {target.name} cannot wait in storage: its GPU reads no files",
            where="offload",
            hint="leave --offload out, or compile for a CPU",
        )


def wants_mixed(options: StepOptions) -> bool:
    """Whether the user asks for mixed precision."""
    precision = options.get("precision", "float32")
    if precision not in PRECISIONS:
        raise UsageError(
            f"unknown precision {precision!r}", hint=f"one of: {', '.join(PRECISIONS)}"
        )
    is_mixed = precision == "mixed"
    if is_mixed and options.get("allow_half_activations"):
        raise UsageError(
            "saved activations are float16 in mixed precision, with or without a budget",
            where="allow_half_activations",
            hint="leave --allow-half-activations out, or --precision mixed",
        )
    return is_mixed
