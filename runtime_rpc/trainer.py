"""Drives a compiled step on a device: the same code for this machine and for a phone.

Weights and optimizer state live on the device, once. A step is one direct call of `train_step`
with their handles: over RPC the virtual machine receives plain tensor pointers and copies nothing,
while its `set_input` would copy them all.
"""

from contextlib import AbstractContextManager
from typing import Self

from odtc.backends.compiled_for import target_of
from odtc.core.artifact.bundle import MEMORY, Bundle
from odtc.core.artifact.manifest import StepPlan
from odtc.core.artifact.memory_plan import parse_memory_plans
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
from odtc.runtime_rpc.engines.choose import engine_of
from odtc.runtime_rpc.fit import check_cores, check_machine, check_threads
from odtc.runtime_rpc.guards.turns import Turns, alone
from odtc.runtime_rpc.loop.fitter import Fitter
from odtc.runtime_rpc.loop.history import History
from odtc.runtime_rpc.memory.allocation import Placement
from odtc.runtime_rpc.memory.idle import OF_MEMORY, AtWork
from odtc.runtime_rpc.memory.plans import Available
from odtc.runtime_rpc.metrics.sampling import PERIOD
from odtc.runtime_rpc.profile.host_clock import HostClock
from odtc.runtime_rpc.profile.launches import Launches
from odtc.runtime_rpc.profile.profiler import Profiling, profiling
from odtc.runtime_rpc.sessions.session import Session
from odtc.runtime_rpc.state.frozen_layers import FrozenLayers
from odtc.runtime_rpc.state.several_adapters import SeveralAdapters
from odtc.runtime_rpc.taking_steps import TakingSteps

_MADE = "update/count"
IN_MEMORY = Placement()


class Trainer(Fitter, FrozenLayers, TakingSteps, SeveralAdapters):
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
        self._host = HostClock()
        self._engine = engine_of(bundle, session, placement, self._host)
        self._begin_steps()
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

    @takes("trainer.profile", period=REAL, root=PATH, length=optional(whole_from(1)))
    def profile(
        self, period: float = PERIOD, root: str = "/", *, length: int | None = None
    ) -> AbstractContextManager[Profiling]:
        """A block whose steps are profiled; they train as any others.

            with trainer.profile() as profiling:
                for x, y in batches:
                    trainer.step(x, y, lr=0.01)
            profiling.profile.operator_seconds

        Args:
            period: seconds between samples of the state of the device.
            root: on the device, of `/proc` and `/sys`; another one is a fixture.
            length: of a step that was compiled for several, the one whose steps the profile is of;
                by default the longest that was taken. A warning tells of steps at others.

        Raises:
            DeviceError: the device's server cannot measure, or the device failed.
            UsageError: no step was taken in the block, or none at that length, or there is no such
                length; the period is out of its bounds; the artifact is closed.
            ArtifactError: an older odtc compiled the step for several lengths.
        """
        self._turns.check()
        plans = parse_memory_plans(self._bundle.opened().memory.read_bytes(), MEMORY)
        measured = self.session, self._engine.clocked(), self._host
        return profiling(*measured, self._manifest, plans, period, root, length=length)

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
