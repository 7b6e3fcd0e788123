"""A run at work, as callbacks see it: its history, its step, and how it is stopped and saved.

What a run does after a step follows from the step's number and the history alone. Both are in each
checkpoint (`Progress`), so that a run that goes on from one does what it would have done.
"""

import os
from typing import Any

from odtc.core.elsewhere.names import RUN
from odtc.core.elsewhere.rows import no_attribute
from odtc.runtime_rpc.loop.course import Course, unfinished_text
from odtc.runtime_rpc.loop.history import History, Progress
from odtc.runtime_rpc.loop.measured.label_weights import mean_text
from odtc.runtime_rpc.loop.measured.unlabelled import total_text
from odtc.runtime_rpc.loop.trained import Trained


class Run:
    """A run at work.

    Args:
        trainer: takes the steps.
        course: what is to be done.
        start: the trainer's steps before the run, where no checkpoint says it.

    Attributes:
        trainer: with the weights.
        course: what is to be done.
        now: what checkpoints keep of it.
        history: so far.
        notes: what callbacks keep in checkpoints, for JSON.
        step: the number of the step that was told last.
        seconds: that the steps of this process took.
        loss: of the last step; None before it.
        label_weight: of the last step, as `Trainer.label_weight`: 0 where no label counts.
    """

    # What is set beside these, as Lightning's `should_stop`, is an error: nothing would come of it.
    __slots__ = (
        *("course", "history", "label_weight", "loss", "notes", "now", "seconds", "step"),
        "trainer",
    )

    def __init__(self, trainer: Trained, course: Course, start: int) -> None:
        self.trainer, self.course = trainer, course
        self.now = Progress.of_text(trainer.progress, trainer.steps) or Progress(start)
        self.now.class_names = [*course.feed.class_names]
        self._note_columns()
        self.history = History(self.now.rows, class_names=tuple(self.now.class_names))
        self.notes = self.now.notes
        self.step = trainer.steps - self.now.start
        self.seconds = 0.0
        self.loss: float | None = None
        self.label_weight = 1.0

    def __getattr__(self, name: str) -> Any:
        raise no_attribute(self, name, RUN)

    def __setattr__(self, name: str, value: object) -> None:
        if name not in self.__slots__:
            raise no_attribute(self, name, RUN)
        super().__setattr__(name, value)

    @property
    def epoch(self) -> int:
        """The number, from 1, of the epoch that the last step belongs to."""
        return self.course.feed.epochs_done(self.step - 1) + 1 if self.step else 1

    @property
    def lr(self) -> float:
        """The learning rate of the last step."""
        return self.course.schedule(max(self.step - 1, 0) // self.trainer.manifest.accumulate)

    @property
    def is_at_rest(self) -> bool:
        """Whether the device is at the step that was told last, and no further."""
        return self.step + self.now.start == self.trainer.steps

    def stop(self, reason: str) -> None:
        """Ends the run as soon as the device is at the step that was told last."""
        self.history.stopped = self.history.stopped or reason

    def note(self) -> None:
        """Gives the trainer what checkpoints keep of the run."""
        self.now.step = self.trainer.steps
        self._note_columns()
        self.trainer.progress = self.now.to_text()

    def _note_columns(self) -> None:
        """Keeps the names of columns: of what is gone through they come with the first batch."""
        columns = self.course.feed.column_names
        self.now.column_names = {name: [*columns[name]] for name in columns}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a checkpoint that the run can be taken up from.

        Raises:
            NumericError: weights or state are not finite; a checkpoint that is there stays.
            OutputError: the file cannot be written.
        """
        self.note()
        self.trainer.save_checkpoint(path)


def end_texts(run: Run) -> tuple[str, ...]:
    """What is said at the end of a run of steps that did less than they seem to; some are empty."""
    trainer, now = run.trainer, run.now
    # Of a run that ends where it was to end, it was said before the first step.
    is_whole = run.step == run.course.last_step
    return (
        "" if is_whole else unfinished_text(trainer.steps, trainer.manifest.accumulate),
        _skipped_text(trainer.skipped, trainer.updates),
        total_text(now.unlabelled, now.first_unlabelled, run.step),
        mean_text(trainer.manifest) if run.course.validation else "",
    )


def _skipped_text(count: int, updates: int) -> str:
    if not count:
        return ""
    return f"{count} of {updates} updates were left out: not all of their gradients were finite"
