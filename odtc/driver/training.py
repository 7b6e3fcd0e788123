"""`Step`: a draft with its gradients, ready to be lowered to kernels."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from odtc.backends.targets import CPU, Target
from odtc.core.process.progress import Progress
from odtc.core.specs import Role
from odtc.driver.drafts.draft import Draft
from odtc.driver.drafts.source import Source
from odtc.driver.layouts import LayoutChoice
from odtc.frontend.graph import Graph
from odtc.frontend.optimizers.update import Update
from odtc.frontend.training import (
    TRAIN_STEP,
    TrainingGraph,
    build_training_graph,
    try_training_graph,
)

if TYPE_CHECKING:
    from odtc.passes.contract import Pipeline


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
        rewrites = rewrites_of(
            source.target,
            source.layouts,
            saves_half=source.saves_half,
            has_half=source.has_half,
        )
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


def rewrites_of(
    target: Target, layouts: LayoutChoice, *, saves_half: bool, has_half: bool = False
) -> "Pipeline":
    """The passes over the Relax operators of a step that its options ask for.

    Args:
        target: of the compile.
        layouts: of images.
        saves_half: whether what the backward reads is stored as float16.
        has_half: whether products may multiply float16.
    """
    # Kernels come with them, which a dry run goes without.
    from odtc.passes.graph.half_storage import HalfStorage

    # Kernels of images with channels last read float32.
    products_round = has_half and target.kind != CPU
    return (
        (HalfStorage(TRAIN_STEP, products_round=products_round),)
        if saves_half
        else layouts.passes(target)
    )


def differentiate(draft: Draft, progress: Progress, smaller: Sequence[Graph] = ()) -> Step:
    """The training graph of a draft, which is evaluated for the samples of smaller ones, too."""
    progress("differentiate")
    training = build_training_graph(
        draft.graph, draft.objective, _update_of(draft), draft.selection, smaller
    )
    return Step(draft.source, draft, training)


def try_to_differentiate(draft: Draft) -> None:
    """Raises what `differentiate` would, in less time."""
    try_training_graph(draft.graph, draft.objective, _update_of(draft), draft.selection)


def _update_of(draft: Draft) -> Update:
    """The update with the gradients of all micro-batches added up."""
    update = draft.source.update
    return dataclasses.replace(update, accumulate=update.accumulate * draft.micro_batches)
