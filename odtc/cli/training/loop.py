"""The steps of a run, up to its end or a signal, and the checkpoints between them."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from odtc.cli.console import progress_of, readable_bytes, say
from odtc.cli.interrupts import StopRequest, interruption
from odtc.cli.training.checkpoints import Checkpoints

if TYPE_CHECKING:
    from odtc.cli.training.samples import Batch
    from odtc.runtime_rpc.trainer import Trainer
    from odtc.schedules import Schedule

EMULATED = "emulated, not a measurement"


@dataclass
class Done:
    """The progress of a run so far.

    Attributes:
        emulated: a device of it is emulated, and its times are not results.
        steps: number of steps that it took itself.
        seconds: wall time of all its steps.
        loss: of its last step.
    """

    emulated: bool = False
    steps: int = 0
    seconds: float = 0.0
    loss: float | None = None

    @property
    def step_ms(self) -> float:
        """Mean time of a step in milliseconds."""
        return 1000 * self.seconds / self.steps

    def time_text(self) -> str:
        """The time of a step, for people."""
        return EMULATED if self.emulated else f"{self.step_ms:.2f} ms a step"


@dataclass(frozen=True)
class Steps:
    """The steps that a run takes.

    Attributes:
        total: number of the last one, counted over all runs that go on from each other.
        per_call: that a device takes at once.
        schedule: the learning rate of each.
    """

    total: int
    per_call: int
    schedule: "Schedule"


def take_steps(
    trainer: "Trainer", feed: "Iterable[Batch]", steps: Steps, keep: Checkpoints, done: Done
) -> StopRequest:
    """Takes the steps that are left, or those up to a signal, and saves the checkpoint.

    Args:
        trainer: at the step that it goes on from.
        feed: the batches from there on.
        steps: that the run takes.
        keep: its checkpoints.
        done: what it did so far; this goes on counting.

    Returns:
        Whether somebody asked for an end.
    """
    remaining = max(steps.total - trainer.steps, 0)
    with interruption(at_once=False) as asked, progress_of(steps.total, trainer.steps) as update:
        losses = trainer.train(islice(feed, remaining), steps.schedule, steps.per_call)
        saved = trainer.steps
        for step in range(trainer.steps + 1, trainer.steps + remaining + 1):
            began, plan = time.perf_counter(), trainer.plan
            done.loss = next(losses)
            done.seconds += time.perf_counter() - began
            if trainer.plan != plan:
                say(f"step {trainer.steps}: {_plan_text(trainer)}")
            done.steps += 1
            update(step, f"loss {done.loss:.4f}, {done.time_text()}")
            if step < trainer.steps:
                # The device is further, at the end of a call: what it holds is of that step.
                continue
            if keep.is_due(step, saved):
                _save(trainer, keep)
                saved = step
            if asked.number:
                break
        _save(trainer, keep)
    return asked


def _save(trainer: "Trainer", keep: Checkpoints) -> None:
    if keep.checkpoint:
        trainer.save_checkpoint(keep.checkpoint)


def _plan_text(trainer: "Trainer") -> str:
    plan = trainer.plan
    return f"went on with an arena of {readable_bytes(plan.arena_bytes)}, for the memory left"
