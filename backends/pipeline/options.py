"""The target's family and the step, which a pipeline depends on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from odtc.backends.family.family import Family
from odtc.core.artifact.memory_plan import Origin
from odtc.passes.contract import Pass
from odtc.passes.schedule.insert_checkpoints import InsertCheckpoints


@dataclass(frozen=True, eq=False)
class PipelineOptions:
    """The target, step and options that a pipeline's passes are chosen by and made with.

    Attributes:
        family: of the target.
        train_step: name of the training step; None where the module only runs forward.
        rewrites: passes over the Relax operators that the caller asks for.
        recall: the pass that recalls kernels, where code of theirs may be kept.
        schedule: passes that schedule the kernels of the target.
        origins: of the tensors that the variables of the training step are named by.
        checkpoints: what lets calls run again, which have their order by then.
        may_wait: whether tensors may wait in storage, which gives back what was stored: what is
            changed in place after that would be lost.
    """

    family: Family
    train_step: str | None = None
    rewrites: Sequence[Pass] = ()
    recall: Sequence[Pass] = ()
    schedule: Sequence[Pass] = ()
    origins: Sequence[Origin] = ()
    checkpoints: InsertCheckpoints | None = None
    may_wait: bool = False

    @property
    def steps(self) -> tuple[str, ...]:
        """Names of the functions that are training steps."""
        if self.checkpoints:
            return self.checkpoints.functions
        return (self.train_step,) if self.train_step else ()

    @cached_property
    def brought(self) -> Mapping[str, Pass]:
        """The passes that the family and the caller bring, by name."""
        family = self.family
        of_family = (
            *(*family.rewrites, family.products, *family.blocks, family.workspaces),
            *(family.offsets, *family.halves, *family.hides, *family.checks),
        )
        of_caller = (*self.rewrites, *self.recall, *self.schedule)
        planned = (self.checkpoints,) if self.checkpoints else ()
        return {each.title: each for each in (*of_family, *of_caller, *planned)}
