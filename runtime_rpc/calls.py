"""Calls of the compiled training step, by one of its plans at a time."""

from collections.abc import Callable, Sequence

import tvm
from tvm import relax

from odtc.core.errors import DeviceError
from odtc.core.manifest import Manifest, StepPlan
from odtc.runtime_rpc.failures import FAILURES, SMALLER, is_out_of_memory, why_not_allocated
from odtc.runtime_rpc.plans import Available, Follower, plan_within, smaller_plan
from odtc.runtime_rpc.profile.host_clock import HostClock
from odtc.runtime_rpc.profile.record import DOWNLOAD
from odtc.runtime_rpc.session import Session


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
        self._functions = {plan: machine[plan.function] for plan in manifest.plans}
        self._follower: Follower | None = None
        # Bytes of the arena that the device keeps for the next call.
        self._held = 0
        self.plan = manifest.plans[0]

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
        available()
        self._follower = Follower(self._manifest.plans, available, reserve)

    def prepare(self) -> None:
        """Looks at the memory that is left, if it is followed; to be called before each step."""
        if self._follower:
            self._change_to(self._follower.choose(self.plan, self._held))

    def run(self, tensors: Sequence[tvm.runtime.Tensor], meanwhile: Callable[[], None]) -> float:
        """Runs the step, by a smaller plan where there is no memory for this one.

        The arena is allocated before anything else is done: a call that fails so changed nothing.

        Args:
            tensors: the arguments.
            meanwhile: what the host does while the device computes; again with another plan.

        Returns:
            The loss.

        Raises:
            DeviceError: the device failed, or has no memory for any smaller plan.
        """
        while True:
            try:
                with self._host.span(self.plan.function):
                    loss = self._functions[self.plan](*tensors)
                self._held = self.plan.arena_bytes
                meanwhile()
                with self._host.span(DOWNLOAD):
                    return float(loss.numpy())
            except FAILURES as error:
                if not is_out_of_memory(error):
                    raise
                self._change_to(self._smaller(error))

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
        """Gives the arena of the last plan back first, so that never both are there."""
        if plan != self.plan:
            with self._session.guard():
                self._session.free_arenas()
            self.plan, self._held = plan, 0
