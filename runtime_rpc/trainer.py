"""Drives a compiled step on a device: the same code for this machine and for a phone.

Weights and optimizer state live on the device, once. A step is one direct call of `train_step`
with their handles: over RPC the virtual machine receives plain tensor pointers and copies nothing,
while its `set_input` would copy them all.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Self

from odtc.backends.compiled_for import target_of
from odtc.core.artifact.bundle import MEMORY, Bundle
from odtc.core.artifact.manifest import StepPlan
from odtc.core.artifact.memory_plan import parse_memory_plans
from odtc.core.errors import UnsupportedError
from odtc.core.options.arguments import takes
from odtc.core.options.byte_sizes import parse_bytes
from odtc.core.options.caller_warning import warn_caller
from odtc.core.options.idle import said_of_idle
from odtc.core.options.kinds import (
    ANYTHING,
    FLAG,
    FUNCTION,
    PATH,
    REAL,
    instance,
    optional,
    whole_from,
)
from odtc.core.options.trainer_kinds import BUNDLE, SESSION, THREADS
from odtc.core.specs import Role
from odtc.runtime_rpc.data.objects.pairing import Pairing
from odtc.runtime_rpc.data.tables.ordering import Ordering
from odtc.runtime_rpc.engines.choose import engine_of
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
from odtc.runtime_rpc.fit import check_cores, check_machine, check_threads
from odtc.runtime_rpc.guards.turns import Turns, alone
from odtc.runtime_rpc.guards.uninterrupted import uninterrupted
from odtc.runtime_rpc.lengths.feed import feeding_of
from odtc.runtime_rpc.loop.fitter import Fitter
from odtc.runtime_rpc.loop.history import History
from odtc.runtime_rpc.loop.measured.label_weights import LabelWeights, uncounted
from odtc.runtime_rpc.loop.measured.unlabelled import first_text
from odtc.runtime_rpc.memory.allocation import Placement
from odtc.runtime_rpc.memory.idle import OF_MEMORY, AtWork
from odtc.runtime_rpc.memory.plans import Available
from odtc.runtime_rpc.metrics.sampling import PERIOD
from odtc.runtime_rpc.not_finite import is_marked, not_finite
from odtc.runtime_rpc.profile.host_clock import HostClock
from odtc.runtime_rpc.profile.launches import Launches
from odtc.runtime_rpc.profile.profiler import Profiling, profiling
from odtc.runtime_rpc.sessions.session import Session
from odtc.runtime_rpc.state.frozen_layers import FrozenLayers
from odtc.runtime_rpc.state.several_adapters import SeveralAdapters

# A loss that is not finite may come from the loss scale, which sinks then; below this it does not.
_LEAST_SCALE = 2.0**-14
_SCALE, _MADE = "update/loss-scale", "update/count"
IN_MEMORY = Placement()
# The number of a call is an int32.
MOST_CALLS = 2**31 - 1


class Trainer(Fitter, FrozenLayers, Evaluating, SeveralAdapters):
    """A training step at work on one device.

    The threads of a process may use it, one at a time: a call waits for that of another thread. A
    process that is forked may not.

    Attributes:
        steps: number of steps taken, checkpoints included.
        session: where it runs.
        target: what the step is compiled for.
        run: what makes the run the one that it is, beside the compiled step, such as its data and
            seed: texts by name. Checkpoints keep it, for `odtc train` to compare.
        progress: of a run of `fit`, its history too, as text; checkpoints keep it.
        history: what the last run of `fit` measured, up to what ended it, an interrupt too; without
            rows before the first one.
    """

    @takes(
        "odtc.Trainer",
        "; odtc.compile(model, batch=32).trainer() makes one, and its fit trains",
        bundle=BUNDLE,
        session=SESSION,
        **THREADS,
        placement=instance(Placement, "placement", "artifact.trainer() makes a trainer"),
        owns_session=FLAG,
    )
    def __init__(
        self,
        bundle: Bundle,
        session: Session,
        threads: int | None = None,
        cores: str | None = None,
        placement: Placement = IN_MEMORY,
        *,
        owns_session: bool = False,
    ) -> None:
        # From here on no text says what the step is compiled for.
        self.target = target = target_of(bundle.manifest)
        check_threads(threads, cores, target)
        super().__init__(bundle, Turns())
        self._threads, self._owns_session = (threads, cores), owns_session
        self.history = History()
        check_machine(session, bundle.manifest, target)
        check_cores(session, threads, cores, target)
        self.session = session = session.on(target.kind)
        self._length = bundle.manifest.length
        self._host = HostClock()
        self._engine = engine_of(bundle, session, placement, self._host)
        self._converter, self._evaluations = feeding_of(bundle.manifest, self._engine)
        self._label_weights, self._label_weight = LabelWeights(bundle.manifest), 1.0
        self._said_unlabelled = False
        self._ordering = Ordering(self._manifest.of_role(Role.INPUT))
        self.use_threads(threads, cores)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._turns.is_over else "at work"
        return f"<odtc.Trainer of {self._manifest.target}, {self.steps} steps, {state}>"

    def close(self) -> None:
        """Gives back the memory of the step, and the device; a `with` block ends with it.

        What the trainer is asked for after it is a UsageError.

        Raises:
            UsageError: a schedule, or a signal's handler, closes it within one of its own calls.
        """
        if self._turns.end():
            self._engine.close()
            del self._engine, self._evaluations, self._converter
            if self._owns_session:
                self.session.close()

    def _settle(self) -> None:
        """Sets the threads of the calling thread's pool as the trainer was told."""
        count = check_cores(self.session, *self._threads, self.target)
        self._engine.use_threads(count, self._threads[1])

    @property
    def updates(self) -> int:
        """Number of updates that the steps came to, those that were left out for an overflow too.

        A schedule is a function of this: `trainer.step(x, y, lr=schedule(trainer.updates))`.
        """
        return self.steps // self._manifest.accumulate

    @property
    def skipped(self) -> int:
        """Number of updates that were left out, as not all of their gradients were finite."""
        made = [item for item in self._manifest.arguments if item.spec.name == _MADE]
        return self.updates - int(self._read(*made)[_MADE]) if made else 0

    @property
    def plan(self) -> StepPlan:
        """The plan that the last step ran by, or the next one will."""
        self._turns.check()
        return self._engine.plan

    @property
    def length(self) -> int:
        """The length at which the last step was taken, where the step has several; else 0."""
        self._turns.check()
        return self._length

    @property
    def label_weight(self) -> float:
        """What the labels of the last step weigh: the number that the mean of its loss is over.

        That is how many labels are not ignored, or the sum of their classes' weights. So the loss
        of several steps as one batch is the sum of `label_weight * loss` over that of
        `label_weight`. It is 1 where each step counts the same: labels all count alike, or nothing
        shows how they count, as in a loss that the model computes, or in several. It is 0 where no
        label counts, whose loss is told as 0.
        """
        return self._label_weight

    @takes("trainer.use_threads", **THREADS)
    @alone
    def use_threads(self, threads: int | None = None, cores: str | None = None) -> None:
        """Takes steps from now on with other threads; see `Artifact.trainer`.

        Raises:
            UsageError: they do not fit the artifact or the device; nothing is changed.
            DeviceError: the device failed.
        """
        check_threads(threads, cores, self.target)
        before, self._threads = self._threads, (threads, cores)
        try:
            self._settle()
        except BaseException:
            self._threads = before
            raise

    @takes("trainer.set_budget", budget=ANYTHING)
    @alone
    def set_budget(self, budget: int | str) -> None:
        """Takes steps from now on by the artifact's fastest plan that fits.

        Args:
            budget: bytes, or text such as `64MiB`, as of `odtc.compile`.

        Raises:
            UsageError: it is not a number of bytes.
            BudgetError: no plan fits; nothing is changed.
            DeviceError: the device failed.
        """
        self._engine.set_budget(parse_bytes(budget, "budget"))
        for said in said_of_idle(OF_MEMORY, AtWork(self._manifest, has_budget=True)):
            warn_caller(f"trainer: {said}")

    @takes("trainer.follow_memory", reserve=ANYTHING, available=optional(FUNCTION))
    @alone
    def follow_memory(
        self, reserve: int | str = "256MiB", available: Available | None = None
    ) -> None:
        """Takes each step from now on by the fastest plan that the device's memory allows.

        A plan that does not fit is left before the next step; a faster one is taken when it has
        fitted with room to spare for some steps. `set_budget` ends this.

        Args:
            reserve: bytes to leave to others, or text such as `256MiB`.
            available: bytes that are left, beside the arena that is there; what the session's
                device says by default.

        Raises:
            UsageError: `reserve`, or what `available` gives, is not a number of bytes. Of what it
                gives later a step says so.
            DeviceError: the device does not say how much memory it has left.
        """
        for said in said_of_idle(OF_MEMORY, AtWork(self._manifest, follows=True)):
            warn_caller(f"trainer: {said}")
        left = available or self.session.available_bytes
        self._engine.follow(left, parse_bytes(reserve, "reserve"))

    @plain_arguments
    def step(self, x: Feed, y: Feed | None = None, lr: float = NO_RATE) -> float:
        """Takes one step of training, in as many micro-batches as it was compiled for.

        Args:
            x: the input, or `{input name: array}`; shapes as compiled. Arrays, lists of numbers,
                and tensors of PyTorch, which are detached. Inputs of the model that nothing needs
                may be left out.
            y: the label, or `{output: array}` where several outputs are trained; shapes and dtypes
                as the loss wants them. None where the model's inputs hold the labels.
            lr: the learning rate; it has to be given, and only a step that updates uses it.

        Returns:
            The mean loss of the batch before the update. With a loss scale, or `on_nonfinite`
            "skip", it may be infinite or NaN: the update was left out then. Of a batch without any
            label that counts it is 0, and so are its gradients; a warning says so once. See
            `label_weight` for means over steps.

        Raises:
            DataError: a shape, a dtype or a label does not fit.
            UsageError: there are other arguments, or the learning rate is no number.
            NumericError: the loss, or what the step wrote, is not finite; the message names the
                first tensor. The parameters cannot be used any more.
            DeviceError: the device failed.
            UnsupportedError: the run has as many steps as one can have, 2³¹ - 1 calls.
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
        """Takes a step for each batch; a GPU is sent the next one meanwhile, and waits for none.

        Args:
            batches: input and label of each, as of `step`, or a mapping with both by name, as
                loaders of Hugging Face give it; asked for at most one ahead.
            lr: the learning rate, or a schedule: a function from `updates` to it.
            steps_per_call: how many steps a device behind odtc's server takes in one call, so that
                none of them waits for the link: it holds as many batches meanwhile. A memory that
                is followed is looked at before each call. This machine, and TVM's own server, take
                one.

        Yields:
            The loss of each step, as `step` returns it. Those of a call come one after the other,
            while `steps` counts all of them already.

        Raises:
            DataError: a shape, a dtype or a label does not fit, once the steps before are taken.
            NumericError: the loss, or what the step wrote, is not finite; the message names the
                first tensor. The parameters cannot be used any more.
            DeviceError: the device failed.
            UsageError: `steps_per_call` is less than 1, a batch is no pair, or a learning rate is
                no number.
        """
        self.can_fill_rows()
        most = self._engine.at_once(steps_per_call)
        schedule = schedule_of(lr)
        pairing = Pairing(self._manifest)
        upcoming = Upcoming(self._fed(x, y) for x, y in pairs(batches, pairing))
        while steps := upcoming.take(most):
            yield from self._take(steps, upcoming.look, schedule)

    def _fed(self, x: Feed, y: Feed | None) -> Fed:
        fed = self._converter.fed(self._ordering(x, self._trained_columns), y)
        # Here, as a loader may fill the same arrays again.
        fed.label_weight = self._label_weights.of(fed.whole)
        if not fed.label_weight and not self._said_unlabelled:
            # Now: a loader may fill the same arrays again before the step is over.
            fed.uncounted = str(uncounted(self._manifest, fed.whole))
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
                f"{most:,} steps are the most of a run, and {first:,} are taken",
                hint="go on from the weights alone: export the model, and compile that",
            )
        rates = [learning_rate(schedule((first + n) // accumulate)) for n in range(len(steps))]
        with uninterrupted():
            losses = self._engine.take(list(zip(steps, rates, strict=True)), first, following)
            self.steps += len(steps)
        return first, losses, rates

    @takes("trainer.profile", period=REAL, root=PATH)
    def profile(self, period: float = PERIOD, root: str = "/") -> AbstractContextManager[Profiling]:
        """A block whose steps are profiled; they train as any others.

            with trainer.profile() as profiling:
                for x, y in batches:
                    trainer.step(x, y, lr=0.01)
            profiling.profile.operator_seconds

        Args:
            period: seconds between samples of the state of the device.
            root: on the device, of `/proc` and `/sys`; another one is a fixture.

        Raises:
            DeviceError: the device's server cannot measure, or the device failed.
            UsageError: no step was taken in the block; the period is out of its bounds; the
                artifact is closed.
            UnsupportedError: the step has several lengths.
        """
        self._turns.check()
        plans = parse_memory_plans(self._bundle.opened().memory.read_bytes(), MEMORY)
        measured = self.session, self._engine.clocked(), self._host
        return profiling(*measured, self._manifest, plans, period, root)

    @alone
    def launches(self) -> Launches:
        """What the step's kernels launch on a GPU, and take of it, as its driver says.

        A driver may compile kernels again for that.

        Returns:
            Launches of each kernel by the name that a profile has for it; empty on a CPU, and where
            TVM takes the steps.

        Raises:
            DeviceError: the device failed.
            UsageError: the artifact is closed.
        """
        self._turns.check()
        return self._engine.launches()

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
