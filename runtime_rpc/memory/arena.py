"""The arena that a step is given, of one of its plans at a time."""

from typing import Any

from tvm import relax

from odtc.core.artifact.manifest import StepPlan, allocator_of
from odtc.runtime_rpc.sessions.session import Session


class Arena:
    """Pages that change their size and stay, where the session has such; else memory of each plan.

    Attributes:
        held: bytes that are allocated.
    """

    def __init__(self, session: Session, machine: relax.VirtualMachine) -> None:
        self._session, self._machine = session, machine
        self._pages = session.pages()
        self._argument: Any = None
        self.held = 0

    def of(self, plan: StepPlan) -> Any:
        """The argument of a step by a plan; its memory is allocated if it is not there.

        Raises:
            OSError: there is no such memory, and nothing is held any more; of other failures of
                TVM's, `is_out_of_memory` knows those that say so.
        """
        if self._argument is None or self.held != plan.arena_bytes:
            self._argument, self.held = None, 0
            self._argument = self._allocated(plan)
            self.held = plan.arena_bytes
        return self._argument

    def leave_for(self, plan: StepPlan) -> None:
        """Gives back what a plan does not need, before the plan's own arena is asked for."""
        if self._pages is None:
            self._argument, self.held = None, 0
            self._session.free_arenas()
        elif plan.arena_bytes < self.held:
            self.of(plan)

    def _allocated(self, plan: StepPlan) -> Any:
        if self._pages is None:
            return self._machine[allocator_of(plan.function)]()
        return self._pages(plan.arena_bytes)
