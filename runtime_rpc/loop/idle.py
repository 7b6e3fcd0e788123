"""Options of a run that change nothing of it, as long as it is, with this data."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from odtc.core.options.idle import Idle
from odtc.runtime_rpc.data.augment import Augmented
from odtc.runtime_rpc.data.source import Stream
from odtc.runtime_rpc.loop.callback import Callback
from odtc.runtime_rpc.loop.course import Course
from odtc.runtime_rpc.loop.features.keeping import step_features
from odtc.runtime_rpc.loop.keeping import Checkpoint
from odtc.runtime_rpc.loop.run import Run
from odtc.runtime_rpc.loop.stopping import EarlyStopping

USUAL_CACHE = "1GiB"
"""What may be kept of features where nobody says it."""


@dataclass(frozen=True)
class Begun:
    """A run before its first step.

    Attributes:
        run: it.
        callbacks: that go with it.
        seed: of the samples' order.
        feature_cache: what may be kept of features, as it was given.
    """

    run: Run
    callbacks: Sequence[Callback]
    seed: int
    feature_cache: int | str

    @property
    def course(self) -> Course:
        """What it is to do."""
        return self.run.course

    @property
    def steps(self) -> int:
        """The number of its last step; 0 where only the data tells."""
        return self.course.last_step or 0

    @property
    def before(self) -> int:
        """Steps of its trainer before the run; the last ones may be of the run's first update."""
        return self.run.trainer.steps - self.run.step

    @property
    def updates(self) -> int:
        """Updates of the whole run."""
        accumulate = self.run.trainer.manifest.accumulate
        return (self.before + self.steps) // accumulate - self.before // accumulate

    @property
    def rows(self) -> float:
        """How many rows its history can have at most; no bound where only the data tells."""
        feed, every = self.course.feed, self.course.every
        if not isinstance(feed, Stream):
            return math.inf
        return feed.epochs_done(self.steps) + (self.steps // every if every else 0)

    @property
    def patience(self) -> int:
        """The least patience of what ends it early; 0 for no such end."""
        found = [each.worse_rows for each in self.callbacks if isinstance(each, EarlyStopping)]
        return min(found, default=0)

    @property
    def checkpoint_every(self) -> int:
        """Steps from one checkpoint to the next; 0 for one at the end."""
        found = [each.every for each in self.callbacks if isinstance(each, Checkpoint)]
        return min((every for every in found if every), default=0)

    @property
    def is_ordered(self) -> bool:
        """Whether nothing is drawn from the seed: samples come as they are given."""
        feed = self.course.feed
        if not isinstance(feed, Stream):
            return isinstance(getattr(feed, "data", None), list | tuple)
        return feed.source.in_file_order and not isinstance(feed.source, Augmented)

    @property
    def first_step(self) -> int:
        """Updates before a schedule by steps first changes the rate; 0 of all others."""
        # Schedules are of a layer above: what is none, as a function of the user's, has no steps.
        found: Callable[[], int] = getattr(self.course.schedule, "first_step", lambda: 0)
        return found()


def left_of_updates(begun: Begun) -> str:
    """What is said of steps at the end of a run that make no update; empty where there are none."""
    accumulate = begun.run.trainer.manifest.accumulate
    left = (begun.before + begun.steps) % accumulate if begun.updates else 0
    if not left:
        return ""
    return (
        f"the last {left} of {begun.steps} steps make no update, which takes {accumulate} "
        "(accumulate): their gradients are kept for a run that goes on from a checkpoint"
    )


OF_RUN: Sequence[Idle[Begun]] = (
    Idle(
        "lr",
        lambda it: it.steps > 0,
        lambda it: it.updates == 0,
        "no update is made: the run has fewer steps than one takes (accumulate)",
    ),
    Idle(
        "schedule",
        lambda it: it.first_step > 0 and it.updates > 0,
        lambda it: it.first_step >= it.updates,
        "its first change comes after the last update of the run",
    ),
    Idle(
        "seed",
        lambda it: it.seed != 0,
        lambda it: it.is_ordered,
        "samples come in the order in which they are given",
    ),
    Idle(
        "validate_every",
        lambda it: bool(it.course.every and it.steps),
        lambda it: (it.course.every or 0) > it.steps,
        "the run has fewer steps",
    ),
    Idle(
        "patience",
        lambda it: it.patience > 0 and it.steps > 0,
        lambda it: it.rows <= it.patience,
        "the history of the run has no more rows, and the first one is the best so far",
    ),
    Idle(
        "checkpoint_every",
        lambda it: it.checkpoint_every > 0 and it.steps > 0,
        lambda it: it.checkpoint_every >= it.steps,
        "the run has no more steps, and the checkpoint is written at its end",
    ),
    Idle(
        "steps_per_call",
        lambda it: it.course.per_call > 1,
        lambda it: it.run.trainer.session.is_local,
        "the steps of this machine wait for no link",
    ),
    Idle(
        "feature_cache",
        lambda it: it.feature_cache != USUAL_CACHE,
        lambda it: step_features(it.run.trainer.manifest) is None,
        "no frozen layers of the step come first",
    ),
)
