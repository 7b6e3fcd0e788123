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
    """A training step loaded on one device.

    Several threads of a process may use it; their calls run one at a time. A forked process may not
    use it.

    Attributes:
        steps: number of steps taken, including those of a loaded checkpoint.
        session: session on the device.
        target: target that the step was compiled for.
        run: identity of the run apart from the compiled step, such as its data and seed, as texts
            by name. It is kept in checkpoints, for `odtc train` to compare.
        progress: progress of a run of `fit`, with its history, as text; kept in checkpoints.
        history: what the last run of `fit` measured, even if it was interrupted; empty before the
            first run.
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
        state = "closed" if self._turns.is_over else "open"
        return f"<odtc.Trainer of {self._manifest.target}, {self.steps} steps, {state}>"

    def close(self) -> None:
        """Frees the memory of the step and the device, as does the end of a `with` block.

        Any later use of the trainer is a UsageError.

        Raises:
            UsageError: it is closed during one of its own calls, by a schedule or a signal handler.
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
        """Number of updates so far, including those that were skipped because of an overflow.

        A schedule is a function of this: `trainer.step(x, y, lr=schedule(trainer.updates))`.
        """
        return self.steps // self._manifest.accumulate

    @property
    def skipped(self) -> int:
        """Number of updates that were skipped because a gradient was not finite."""
        made = [item for item in self._manifest.arguments if item.spec.name == _MADE]
        return self.updates - int(self._read(*made)[_MADE]) if made else 0

    @property
    def plan(self) -> StepPlan:
        """Plan that the last step used, or that the next one will use."""
        self._turns.check()
        return self._engine.plan

    @takes("trainer.use_threads", **THREADS)
    @alone
    def use_threads(self, threads: int | None = None, cores: str | None = None) -> None:
        """Changes the threads of all following steps; see `Artifact.trainer`.

        Raises:
            UsageError: the threads do not fit the artifact or the device; nothing is changed.
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
        """Uses the artifact's fastest plan that fits for all following steps.

        Args:
            budget: budget in bytes, or text such as `64MiB`, as for `odtc.compile`.

        Raises:
            UsageError: `budget` is not a number of bytes.
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
        """Chooses for each following step the fastest plan that fits the device's free memory.

        A plan that no longer fits is replaced before the next step; a faster one is used once it
        has fitted with room to spare for some steps. `set_budget` ends this.

        Args:
            reserve: bytes to leave to other processes, or text such as `256MiB`.
            available: function that returns the free bytes, not counting the current arena; by
                default those that the session's device reports.

        Raises:
            UsageError: `reserve`, or the result of `available`, is not a number of bytes. For later
                results, the step raises it.
            DeviceError: the device does not report its free memory.
        """
        for said in said_of_idle(OF_MEMORY, AtWork(self._manifest, follows=True)):
            warn_caller(f"trainer: {said}")
        left = available or self.session.available_bytes
        self._engine.follow(left, parse_bytes(reserve, "reserve"))

    @takes("trainer.profile", period=REAL, root=PATH, length=optional(whole_from(1)))
    def profile(
        self, period: float = PERIOD, root: str = "/", *, length: int | None = None
    ) -> AbstractContextManager[Profiling]:
        """Context manager that profiles the steps within it; they train as usual.

            with trainer.profile() as profiling:
                for x, y in batches:
                    trainer.step(x, y, lr=0.01)
            profiling.profile.operator_seconds

        Args:
            period: seconds between samples of the device's state.
            root: folder on the device that contains `/proc` and `/sys`; any other is a fixture.
            length: length of the steps to profile, if the step was compiled for several; by default
                the longest that was taken. A warning is given for steps at other lengths.

        Raises:
            DeviceError: the device's server cannot measure, or the device failed.
            UsageError: no step was taken in the block, or none at that length, or there is no such
                length; `period` is out of bounds; the artifact is closed.
            ArtifactError: the step was compiled for several lengths by an older odtc.
        """
        self._turns.check()
        plans = parse_memory_plans(self._bundle.opened().memory.read_bytes(), MEMORY)
        measured = self.session, self._engine.clocked(), self._host
        return profiling(*measured, self._manifest, plans, period, root, length=length)

    @alone
    def launches(self) -> Launches:
        """What the step's kernels launch on a GPU, and the resources that the driver reports.

        The driver may recompile kernels for this.

        Returns:
            Launches of each kernel, by its name in a profile; empty on a CPU, and if TVM runs the
            steps.

        Raises:
            DeviceError: the device failed.
            UsageError: the artifact is closed.
        """
        self._turns.check()
        return self._engine.launches()
