"""Which of its plans a step runs by: within a budget, or by the memory that a device has left."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real

from odtc.core.artifact.manifest import Manifest, StepPlan
from odtc.core.errors import BudgetError, UsageError

# Bytes left, now.
Available = Callable[[], int]
# A larger plan is taken when there has been so much more than it needs, so many steps in a row.
SPARE, PATIENCE = 0.125, 4


def bytes_left(available: Available) -> int:
    """Asks a function for the bytes that are left, and checks them.

    Raises:
        UsageError: it is not a number of bytes.
    """
    left = available()
    if not isinstance(left, Real) or not math.isfinite(left):
        raise UsageError(
            f"the function for the memory that is left gives {left!r}, not a number of bytes",
            where="trainer.follow_memory",
            hint="let it return a number, such as psutil.virtual_memory().available",
        )
    return int(left)


def plan_within(manifest: Manifest, budget: int) -> StepPlan:
    """The fastest plan that fits.

    Raises:
        BudgetError: none does.
    """
    for plan in manifest.plans:
        if manifest.budget_of(plan) <= budget:
            return plan
    least = manifest.budget_of(manifest.plans[-1])
    raise BudgetError(
        f"the step needs at least {least:,} bytes in addition to the parameters; the budget is "
        f"{budget:,}",
        hint="give a larger budget, or compile the model with --memory-budget auto, or for a "
        "smaller batch",
        least=least,
    )


def smaller_plan(plans: Sequence[StepPlan], plan: StepPlan) -> StepPlan | None:
    """The next smaller one of plans, if there is one."""
    place = plans.index(plan) + 1
    return plans[place] if place < len(plans) else None


@dataclass
class Follower:
    """Chooses plans by the memory that is left.

    A plan that does not fit is left at once, for the fastest that does, or the smallest. A faster
    one is only taken when it has fitted with room to spare for some steps: else a device whose
    memory goes up and down a little would change with each step.

    Attributes:
        plans: the fastest first.
        available: bytes that are left beside what this step holds.
        reserve: bytes of these to leave to others.
    """

    plans: Sequence[StepPlan]
    available: Available
    reserve: int
    _fitted: int = 0

    def choose(self, plan: StepPlan, held: int) -> StepPlan:
        """The plan of the next step.

        Args:
            plan: of the last one.
            held: bytes of an arena that is there already.
        """
        room = bytes_left(self.available) + held - self.reserve
        if plan.arena_bytes > room:
            self._fitted = 0
            return self._fastest(room)
        faster = self._fastest(round(room / (1 + SPARE)))
        self._fitted = self._fitted + 1 if faster.arena_bytes > plan.arena_bytes else 0
        if self._fitted < PATIENCE:
            return plan
        self._fitted = 0
        return faster

    def _fastest(self, room: int) -> StepPlan:
        return next((plan for plan in self.plans if plan.arena_bytes <= room), self.plans[-1])
