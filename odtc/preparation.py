"""From an ONNX file to the training graph: what `odtc.compile` and `odtc plan` begin with.

load -> specialise -> normalise -> training graph
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import onnx

from odtc.autoschedule.cpu import schedule_passes
from odtc.backends.targets import Target, parse_target
from odtc.core.adapters import Adapter
from odtc.core.errors import UsageError
from odtc.core.files import check_room
from odtc.core.progress import Progress
from odtc.frontend.coverage import require_trainable
from odtc.frontend.graph import Graph
from odtc.frontend.lora import LoRA, adapt
from odtc.frontend.losses.objective import join_losses
from odtc.frontend.losses.terms import Losses, Term, terms_of
from odtc.frontend.normalize.pipeline import normalize
from odtc.frontend.normalize.structure import note_batch_norms
from odtc.frontend.onnx_file import load_model
from odtc.frontend.operators.dropout import set_dropout
from odtc.frontend.optimizers.optimizer import Optimizer
from odtc.frontend.optimizers.sgd import SGD
from odtc.frontend.optimizers.update import Update, as_update
from odtc.frontend.selection import Selection, select
from odtc.frontend.specialize import specialize
from odtc.frontend.training import TRAIN_STEP, TrainingGraph, build_training_graph
from odtc.passes.half_storage import HalfStorage

PRECISIONS = ("float32", "mixed")
# Bytes that object files and the linker may take, beside the weights. LLVM aborts the process when
# it runs out of room.
ROOM = 64 << 20


class StepOptions(TypedDict, total=False):
    """What a step is made by, beside the model and the target; see `odtc.compile`."""

    batch: int | None
    loss: Losses | Sequence[Term]
    optimizer: Optimizer | Update | None
    params: Sequence[str] | str | None
    freeze: Sequence[str] | str
    freeze_batch_norm: bool
    lora: LoRA | None
    shape: Mapping[str, int] | None
    precision: str
    dropout: bool
    seed: int


@dataclass(frozen=True)
class Step:
    """A training graph, and what it was made from.

    Attributes:
        model: as it was read.
        target: what to compile for.
        graph: of the model.
        training: the training graph.
        terms: of the loss.
        update: the update rule with what is around it.
        adapters: that were added.
        has_half: whether products may multiply float16.
        is_mixed: whether what the backward reads is stored as float16.
    """

    model: onnx.ModelProto
    target: Target
    graph: Graph
    training: TrainingGraph
    terms: Sequence[Term]
    update: Update
    adapters: tuple[Adapter, ...]
    has_half: bool
    is_mixed: bool

    @property
    def kernels(self) -> tuple[Any, ...]:
        """What lowering to kernels takes: module, target, training step, schedule, rewrites."""
        rewrites = (HalfStorage(TRAIN_STEP),) if self.is_mixed else ()
        schedule = schedule_passes(self.target)
        return self.training.module, self.target, TRAIN_STEP, schedule, rewrites


def prepare(
    model: str | os.PathLike[str], target: str | Target, options: StepOptions, progress: Progress
) -> Step:
    """Makes the training graph of a model; see `odtc.compile` for arguments and errors."""
    target = parse_target(target) if isinstance(target, str) else target
    target = target.resolved()
    is_mixed = _check_precision(options.get("precision", "float32")) == "mixed"
    has_half = is_mixed and target.has_half_arithmetic
    update = as_update(options.get("optimizer") or SGD())
    if has_half and update.scaling is None:
        update = dataclasses.replace(update, loss_scale="dynamic")
    terms = terms_of(options.get("loss", "cross-entropy"))

    progress("read the model")
    onnx_model = load_model(model)
    check_room(ROOM + Path(model).stat().st_size)
    graph = specialize(onnx_model, options.get("batch"), options.get("shape"))
    set_dropout(graph, options.get("dropout", True), options.get("seed", 0))
    objective = join_losses(graph, terms)
    selection, adapters = _choose(graph, options)
    note_batch_norms(graph, selection.still)
    require_trainable(graph, selection.trained)
    normalize(graph)
    progress("differentiate")
    training = build_training_graph(graph, objective, update, selection)
    return Step(onnx_model, target, graph, training, terms, update, adapters, has_half, is_mixed)


def _choose(graph: Graph, options: StepOptions) -> tuple[Selection, tuple[Adapter, ...]]:
    """What is trained, and the adapters that were added to the graph for it."""
    params, lora = options.get("params"), options.get("lora")
    if params is None:
        params = "*" if lora is None else ()
    train, frozen = (
        (given,) if isinstance(given, str) else given
        for given in (params, options.get("freeze", ()))
    )
    selection = select(graph, train, frozen, options.get("freeze_batch_norm", False))
    return adapt(graph, lora, selection) if lora else (selection, ())


def _check_precision(precision: str) -> str:
    if precision not in PRECISIONS:
        raise UsageError(
            f"unknown precision {precision!r}", hint=f"one of: {', '.join(PRECISIONS)}"
        )
    return precision
