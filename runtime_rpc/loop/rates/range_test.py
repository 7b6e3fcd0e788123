"""The range test: some updates at rates from small to large, of which nothing is left.

    Smith, "Cyclical Learning Rates for Training Neural Networks", 2017

The rate grows by the same factor from update to update, until the loss has grown to several times
the least. Weights, statistics, the optimizer's state and the number of steps are those of before
afterwards, to the bit: they come back from a checkpoint, which holds all of them.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from odtc.core.disk.files import private_folder
from odtc.core.disk.left_behind import remove_folder
from odtc.core.errors import NumericError, UsageError
from odtc.runtime_rpc.data.source import Batch
from odtc.runtime_rpc.loop.feed import Feed
from odtc.runtime_rpc.loop.measured.label_weights import uncounted
from odtc.runtime_rpc.loop.measured.unlabelled import nothing_to_train
from odtc.runtime_rpc.loop.rates.curve import RateCurve
from odtc.runtime_rpc.loop.trained import Trained

# Lightning's and fastai's: the loss is so many times the least.
_DIVERGED = 4.0
# The weight of what was before in the loss that is compared, and the losses that it is of at least.
_MEMORY, _LEAST = 0.8, 10


@dataclass(frozen=True)
class RangeTest:
    """What a range test goes through.

    Attributes:
        lowest: the first learning rate, above 0.
        highest: the last one, above it.
        points: rates in all, at least 2.
    """

    lowest: float = 1e-7
    highest: float = 10.0
    points: int = 100

    def __post_init__(self) -> None:
        if not 0 < self.lowest < self.highest or not math.isfinite(self.highest):
            raise UsageError(
                f"learning rates from lowest {self.lowest:g} to highest {self.highest:g}",
                where="find_learning_rate",
                hint="give two finite numbers above 0, the smaller one first",
            )
        if self.points < 2:
            raise UsageError(
                f"points is {self.points}; at least two rates are needed",
                where="find_learning_rate",
                hint="give 100 or so",
            )

    def rate(self, number: int) -> float:
        """The learning rate of an update, from 0."""
        return self.lowest * (self.highest / self.lowest) ** (number / (self.points - 1))

    def run(
        self,
        trainer: Trained,
        feed: Feed,
        steps_per_call: int = 1,
        told: Callable[[int, float], None] = lambda number, loss: None,
    ) -> RateCurve:
        """Takes the updates, and gives the trainer back what it had.

        Args:
            trainer: whose learning rate it is.
            feed: batches, from the first step on.
            steps_per_call: as of `Trainer.train`.
            told: is called with the number of updates and the loss after each.

        Raises:
            OdtcError: as of `Trainer.train` and checkpoints.
        """
        folder, progress = private_folder(), trainer.progress
        kept = folder / "before.ckpt"
        try:
            trainer.save_checkpoint(kept)
            try:
                return self._curve(trainer, feed, steps_per_call, told)
            finally:
                trainer.load_checkpoint(kept)
                trainer.progress = progress
        finally:
            remove_folder(folder)

    def _curve(
        self,
        trainer: Trained,
        feed: Feed,
        steps_per_call: int,
        told: Callable[[int, float], None],
    ) -> RateCurve:
        accumulate = trainer.manifest.accumulate
        before, stopped = trainer.steps // accumulate, ""
        number, losses = 0, list[float]()
        rates: list[float] = []
        steps = islice(batches(feed), self.points * accumulate)

        def rate(updates: int) -> float:
            return self.rate(min(updates - before, self.points - 1))

        weighed = ((trainer.label_weight, s) for s in trainer.train(steps, rate, steps_per_call))
        try:
            for number in range(self.points):
                part = [*islice(weighed, accumulate)]
                weight = math.fsum(each for each, _ in part)
                # An update without a label that counts has no loss: it is no point of the curve.
                if not weight:
                    continue
                losses.append(math.fsum(each * loss for each, loss in part if each) / weight)
                rates.append(self.rate(number))
                told(number + 1, losses[-1])
                if stopped := _diverged(losses):
                    break
        except NumericError as error:
            stopped = f"{error.what.splitlines()[0]}, at {self.rate(number):.2g}"
        if not losses and not stopped:
            raise nothing_to_train(self.points * accumulate, uncounted(trainer.manifest))
        return RateCurve(tuple(rates), tuple(losses), stopped)


def batches(feed: Feed) -> Iterator[Batch]:
    """The batches of all epochs, without end."""
    step = 0
    while True:
        for batch in feed.segment(step, 2**31):
            step += 1
            yield batch


def _diverged(losses: list[float]) -> str:
    if not math.isfinite(losses[-1]):
        return "the loss is not finite"
    if len(losses) < _LEAST:
        return ""
    recent = [losses[0]]
    for loss in losses[1:]:
        recent.append(_MEMORY * recent[-1] + (1 - _MEMORY) * loss)
    least = min(recent)
    if recent[-1] - least > (_DIVERGED - 1) * abs(least):
        return f"the loss is more than {_DIVERGED:g} times the least"
    return ""
