"""Calls of the compiled training step, by one of its plans at a time."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import tvm
from tvm import relax

from odtc.core.artifact.manifest import Manifest, StepPlan
from odtc.core.errors import DeviceError
from odtc.core.specs import Argument
from odtc.runtime_rpc.guards.failures import FAILURES, SMALLER, is_out_of_memory, why_not_allocated
from odtc.runtime_rpc.memory.arena import Arena
from odtc.runtime_rpc.memory.plans import Available, Follower, bytes_left, plan_within, smaller_plan
from odtc.runtime_rpc.profile.host_clock import HostClock
from odtc.runtime_rpc.profile.record import DOWNLOAD
from odtc.runtime_rpc.sessions.session import Runner, Session
from odtc.runtime_rpc.tracker.told import told, understood

T = TypeVar("T")


class Calls:
    """The training step on a device.

    Attributes:
        plan: by which the last call ran, or the next one will.
    """

    def __init__(
        self,
        manifest: Manifest,
        session: Session,
        machine: relax.VirtualMachine,
        host: HostClock,
    ) -> None:
        self._manifest, self._session, self._host = manifest, session, host
        self._machine = machine
        self._functions = {plan.function: machine[plan.function] for plan in manifest.plans}
        self._follower: Follower | None = None
        self.plan = manifest.plans[0]
        self._arena = Arena(session, machine)

    def set_budget(self, budget: int) -> None:
        """Runs by the fastest plan that fits.

        Raises:
            BudgetError: none does; nothing is changed.
        """
        plan = plan_within(self._manifest, budget)
        self._follower = None
        self._change_to(plan)

    def follow(self, available: Available, reserve: int) -> None:
        """Lets `prepare` choose the plan; see `Trainer.follow_memory`."""
        bytes_left(available)
        self._follower = Follower(self._manifest.plans, available, reserve)

    def prepare(self) -> None:
        """Looks at the memory that is left, if it is followed; to be called before each step."""
        if self._follower:
            self._change_to(self._follower.choose(self.plan, self._arena.held))

    def run(self, tensors: Sequence[tvm.runtime.Tensor]) -> float:
        """Runs the step, by a smaller plan where there is no memory for this one.

        The arena is allocated before anything else is done: a call that fails so changed nothing.

        Args:
            tensors: the arguments.

        Returns:
            The loss.

        Raises:
            DeviceError: the device failed, or has no memory for any smaller plan.
        """

        def call() -> float:
            name = self.plan.function
            with self._host.span(name):
                loss = self._functions[name](*tensors, self._arena.of(self.plan))
            with self._host.span(DOWNLOAD):
                return self._session.number(loss)

        return self._within_memory(call)

    def run_at_once(
        self,
        runner: Runner,
        tensors: Mapping[Argument, tvm.runtime.Tensor],
        stacks: Mapping[Argument, tvm.runtime.Tensor],
    ) -> list[float]:
        """Runs the step several times in one call, as `run` does.

        Where there is no memory for one of them, those after it are another call.

        Args:
            runner: of the device.
            tensors: the arguments, in their order.
            stacks: what each run is fed of some of them, one after the other.

        Returns:
            The loss of each run.
        """
        order = list(tensors)
        places = ",".join(str(order.index(item)) for item in stacks)
        losses: list[float] = []

        def call() -> list[float]:
            every = [*tensors.values(), self._arena.of(self.plan), *stacks.values()]
            self._run_rest(runner, places, losses, every)
            return losses

        return self._within_memory(call)

    def _run_rest(
        self,
        runner: Runner,
        places: str,
        losses: list[float],
        tensors: Sequence[tvm.runtime.Tensor],
    ) -> None:
        """Runs the step for all rows after those that have a loss, up to one that fails.

        Raises:
            RuntimeError: it has failed; losses are there of all before it.
        """
        with self._host.span(self.plan.function) as note_runs:
            what = self._machine.module, self.plan.function, places, len(losses)
            answer = told(str(runner.run(*what, *tensors)), self._session.name)
            with understood("the device", self._session.name):
                new, failure = [float(loss) for loss in answer["losses"]], answer["failure"]
            note_runs(len(new))
        losses += new
        if failure is not None:
            raise RuntimeError(failure)

    def _within_memory(self, call: Callable[[], T]) -> T:
        """The result of a call, by a smaller plan where there is no memory for this one."""
        while True:
            try:
                return call()
            except FAILURES as error:
                if not is_out_of_memory(error):
                    raise
                smaller = self._smaller(error)
            # After the failure, which refers to the arena.
            self._change_to(smaller)

    def _smaller(self, error: Exception) -> StepPlan:
        """The next smaller plan, after one that there was no memory for."""
        smaller = smaller_plan(self._manifest.plans, self.plan)
        if smaller is None:
            count = len(self._manifest.plans)
            of = f", the smallest of {count} plans" if count > 1 else ""
            raise DeviceError(
                f"there is no memory for a step's arena of {self.plan.arena_bytes:,} bytes{of}"
                f"{why_not_allocated(error)}",
                where=self._session.name,
                hint=f"{SMALLER}; a budget of auto has several plans",
            ) from error
        return smaller

    def _change_to(self, plan: StepPlan) -> None:
        """Gives memory that the plan does not need back first, so that never both are there."""
        if plan != self.plan:
            with self._session.guard():
                self._arena.leave_for(plan)
            self.plan = plan
