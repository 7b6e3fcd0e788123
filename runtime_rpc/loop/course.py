"""What a run is to do: its batches, its end, its learning rates, its validations."""

from collections.abc import Callable
from dataclasses import dataclass

from odtc.runtime_rpc.loop.feed import Feed
from odtc.runtime_rpc.loop.measured.validation import Validation


@dataclass(frozen=True)
class Course:
    """What a run is to do.

    Attributes:
        feed: the batches.
        steps: number of the last step, from 1; None for that of the epochs.
        epochs: after which it ends; None for that of the steps.
        schedule: from the number of updates of the run to the learning rate.
        per_call: steps that a device takes at once.
        validation: None for none.
        every: steps from one validation to the next, beside those at the ends of epochs.
    """

    feed: Feed
    steps: int | None
    epochs: int | None
    schedule: Callable[[int], float]
    per_call: int = 1
    validation: Validation | None = None
    every: int | None = None

    @property
    def last_step(self) -> int | None:
        """The number of the last step; None where only the data tells."""
        if self.steps is not None:
            return self.steps
        return self.feed.steps_of(self.epochs or 1)

    def ends(self, step: int) -> bool:
        """Whether nothing is left to do after so many steps."""
        if self.last_step is not None:
            return step >= self.last_step
        return self.feed.epochs_done(step) >= (self.epochs or 1)

    def validates(self, step: int) -> bool:
        """Whether there is a row of the history after so many steps."""
        return bool(step and self.every and step % self.every == 0) or self.feed.epoch_ends(step)

    def most(self, step: int) -> int:
        """Steps that may follow each other, without a validation between."""
        left = [self.last_step - step] if self.last_step is not None else []
        left += [self.every - step % self.every] if self.every else []
        return min(left, default=2**31)


def unfinished_text(steps: int, accumulate: int) -> str:
    """Says that the last steps of a run have changed no weight; empty where they have.

    Args:
        steps: that the trainer has taken.
        accumulate: steps that make an update.
    """
    left = steps % accumulate
    if not left:
        return ""
    which = "step has" if left == 1 else f"{left} steps have"
    return (
        f"the last {which} changed no weight yet: {accumulate} make an update (accumulate). A run "
        "that goes on from a checkpoint adds to them"
    )
