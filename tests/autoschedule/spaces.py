"""Kernels that are none, for searches of which all is known."""

import random
from dataclasses import dataclass
from typing import Any

from odtc.autoschedule.tuning.record import frozen
from odtc.autoschedule.tuning.search import KernelDraft
from odtc.backends.decisions import Choice, Decisions


@dataclass(frozen=True)
class Space:
    """Kernels of three decisions, of which the last one depends on the first."""

    sizes: tuple[int, int, int] = (12, 6, 3)

    def draft(self, _: Any, choice: Choice) -> KernelDraft | None:
        decisions = Decisions(choice)
        (tile,) = decisions.decide("tile", [(n,) for n in range(self.sizes[0])], (0,))
        (tasks,) = decisions.decide("tasks", [(n,) for n in range(self.sizes[1])], (0,))
        copy = 0
        if tile % 2:
            (copy,) = decisions.decide("copy", [(n,) for n in range(self.sizes[2])], (0,))
        # Two numbers of tasks make the same kernel.
        code = hash((tile, tasks // 2, copy))
        return None if decisions.unknown else KernelDraft(decisions.made, code)


def gain_of(task: int | None, choice: Choice) -> float:
    """How good a choice is; some fail. Of no task all are the same."""
    if task is None:
        return 1.0
    number = random.Random(f"{task} {frozen(choice)}").random()
    return 0.0 if number < 0.1 else 0.7 + number * 0.8
