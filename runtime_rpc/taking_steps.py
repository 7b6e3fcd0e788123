"""The steps of a trainer: what it is given becomes calls, and these losses with what they count."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from odtc.core.errors import UnsupportedError
from odtc.core.options.arguments import takes
from odtc.core.options.caller_warning import warn_caller
from odtc.core.options.kinds import ANYTHING, whole_from
from odtc.core.specs import Role
from odtc.runtime_rpc.data.fitting.looking import hidden_numbers
from odtc.runtime_rpc.data.objects.pairing import Pairing
from odtc.runtime_rpc.data.tables.ordering import Ordering
from odtc.runtime_rpc.evaluating import Evaluating
from odtc.runtime_rpc.feed.batches import Fed, Feed
from odtc.runtime_rpc.feed.calling import (
    NO_RATE,
    SEVERAL,
    learning_rate,
    pairs,
    plain_arguments,
    schedule_of,
)
from odtc.runtime_rpc.feed.feeding import Upcoming
from odtc.runtime_rpc.guards.turns import alone
from odtc.runtime_rpc.guards.uninterrupted import uninterrupted
from odtc.runtime_rpc.lengths.feed import feeding_of
from odtc.runtime_rpc.loop.measured.label_weights import LabelWeights, uncounted
from odtc.runtime_rpc.loop.measured.unlabelled import first_text
from odtc.runtime_rpc.not_finite import is_marked, not_finite

# A loss that is not finite may come from the loss scale, which sinks then; below this it does not.
_LEAST_SCALE, _SCALE = 2.0**-14, "update/loss-scale"
_HIDDEN = "the loss does not always show it; look for such values in the data"
# The number of a call is an int32.
MOST_CALLS = 2**31 - 1


class TakingSteps(Evaluating):
    """The methods of a trainer that take steps."""

    if TYPE_CHECKING:

        def _settle(self) -> None: ...

    def _begin_steps(self) -> None:
        """Makes what turns batches into steps, once there is an engine."""
        manifest = self._manifest
        self._converter, self._evaluations = feeding_of(manifest, self._engine)
        self._ordering = Ordering(manifest.of_role(Role.INPUT), is_one_run=False)
        self._label_weights, self._label_weight = LabelWeights(manifest), 1.0
        self._said_unlabelled = self._said_hidden = False
        self._length = manifest.length

    @property
    def length(self) -> int:
        """Length at which the last step ran, if the step has several lengths; else 0."""
        self._turns.check()
        return self._length

    @property
    def label_weight(self) -> float:
        """Weight of the labels of the last step: the divisor of its mean loss.

        This is the number of labels that are not ignored, or the sum of their class weights. The
        loss of several steps as one batch is thus the sum of `label_weight * loss` divided by the
        sum of `label_weight`. It is 1 if all steps have equal weight: because all labels do, or
        because the weights are not known, as with a loss that the model computes, or with several
        losses. It is 0 if no label counts; the loss is then reported as 0.
        """
        return self._label_weight

    @plain_arguments
    def step(self, x: Feed, y: Feed | None = None, lr: float = NO_RATE) -> float:
        """Takes one training step, in as many micro-batches as it was compiled for.

        Args:
            x: the input, or `{input name: array}`; shapes as compiled. Arrays, lists of numbers, or
                PyTorch tensors, which are detached. Inputs that the step does not need may be
                omitted.
            y: the labels, or `{output: array}` if several outputs are trained; shapes and dtypes as
                the loss requires. None if the labels are among the model's inputs.
            lr: learning rate; required, but only used by a step that makes an update.

        Returns:
            The mean loss of the batch before the update. With a loss scale, or `on_nonfinite`
            "skip", it may be infinite or NaN; the update was then skipped. If no label of the batch
            counts, the loss and its gradients are 0; a warning says so once. See `label_weight` for
            means over steps.

        Raises:
            DataError: a shape, a dtype or a label does not fit.
            UsageError: an argument is missing or unknown, or the learning rate is not a number.
            NumericError: the loss, or a tensor that the step wrote, is not finite; the message
                names the first one. The parameters can no longer be used.
            DeviceError: the device failed.
            UnsupportedError: the run has reached the maximum of 2³¹ - 1 steps.
        """
        rate = learning_rate(lr)
        self.can_fill_rows()
        return next(self._take([self._fed(x, y)], _nothing, lambda _: rate))

    @takes("trainer.train", SEVERAL, batches=ANYTHING, lr=ANYTHING, steps_per_call=whole_from(1))
    def train(
        self,
        batches: Iterable[tuple[Feed, Feed | None]],
        lr: float | Callable[[int], float],
        steps_per_call: int = 1,
    ) -> Iterator[float]:
        """Takes a step for each batch; a GPU gets the next batch during a step, so it never waits.

        Args:
            batches: inputs and labels of each batch, as for `step`, or a mapping with both by name,
                as Hugging Face loaders give it; at most one is fetched ahead.
            lr: learning rate, or a schedule: a function from `updates` to the learning rate.
            steps_per_call: number of steps that a device with odtc's server takes per call, so that
                they do not wait for the link; it holds this many batches. `follow_memory` checks
                the memory before each call. This machine, and TVM's own server, take one step per
                call.

        Yields:
            The loss of each step, as `step` returns it. Losses of one call are yielded one after
            the other, but `steps` already counts all steps of the call.

        Raises:
            DataError: a shape, a dtype or a label does not fit; the steps before it have been
                taken.
            NumericError: the loss, or a tensor that the step wrote, is not finite; the message
                names the first one. The parameters can no longer be used.
            DeviceError: the device failed.
            UsageError: `steps_per_call` is less than 1, a batch is not a pair, or a learning rate
                is not a number.
        """
        self.can_fill_rows()
        most = self._engine.at_once(steps_per_call)
        schedule = schedule_of(lr)
        pairing = Pairing(self._manifest)
        upcoming = Upcoming(self._fed(x, y) for x, y in pairs(batches, pairing))
        while steps := upcoming.take(most):
            yield from self._take(steps, upcoming.look, schedule)

    def _fed(self, x: Feed, y: Feed | None) -> Fed:
        self._ordering.look_at_rows(x, y)
        fed = self._converter.fed(self._ordering(x, self._trained_columns), y)
        # Here, as a loader may fill the same arrays again.
        fed.label_weight = self._label_weights.of(fed.whole)
        if not fed.label_weight and not self._said_unlabelled:
            # Now: a loader may fill the same arrays again before the step is over.
            fed.uncounted = str(uncounted(self._manifest, fed.whole))
        # Who has such batches left out knows of them.
        if not (self._said_hidden or self._manifest.skips):
            fed.hidden = hidden_numbers(fed.whole)
        return fed

    def _take(
        self,
        steps: Sequence[Fed],
        following: Callable[[], Fed | None],
        schedule: Callable[[int], float],
    ) -> Iterator[float]:
        """The steps of one call; those after them may be looked at meanwhile."""
        call = partial(self._call, steps, following, schedule)
        first, losses, rates = self._turns.take(call, self._settle, steps=True)
        for number, (loss, rate) in enumerate(zip(losses, rates, strict=True), first):
            if not math.isfinite(loss) and (is_marked(loss) or not self._may_skip()):
                whole = steps[number - first].whole
                fed = ((item.spec.name, array) for item, array in whole.items())
                raise not_finite(loss, number + 1, rate, fed, self._kept())
            self._label_weight = steps[number - first].label_weight
            self._length = steps[number - first].length
            if (said := steps[number - first].hidden) and not self._said_hidden:
                self._said_hidden = True
                warn_caller(f"step {number + 1}: {said}: {_HIDDEN}")
            if not self._label_weight and not self._said_unlabelled:
                self._said_unlabelled = True
                warn_caller(first_text(number + 1, steps[number - first].uncounted))
            yield loss

    def _call(
        self,
        steps: Sequence[Fed],
        following: Callable[[], Fed | None],
        schedule: Callable[[int], float],
    ) -> tuple[int, list[float], list[float]]:
        """Takes the steps of one call: the number of those before them, losses and rates."""
        first, accumulate = self.steps, self._manifest.accumulate
        if first + len(steps) > (most := MOST_CALLS // self._manifest.micro_batches):
            raise UnsupportedError(
                f"a run takes at most {most:,} steps, and {first:,} were taken",
                hint="go on from the weights alone: export the model, and compile that",
            )
        rates = [learning_rate(schedule((first + n) // accumulate)) for n in range(len(steps))]
        with uninterrupted():
            losses = self._engine.take(list(zip(steps, rates, strict=True)), first, following)
            self.steps += len(steps)
        return first, losses, rates

    @alone
    def _may_skip(self) -> bool:
        """Whether a loss that is not finite is no error: its update was left out."""
        if self._manifest.skips:
            return True
        if not self._manifest.update["loss_scale"]:
            return False
        scale = float(self._read(*self._manifest.of_role(Role.STATE))[_SCALE])
        return scale >= _LEAST_SCALE


def _nothing() -> None:
    """Follows a step that is taken alone."""
