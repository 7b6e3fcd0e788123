"""Chooses the tasks for the next trials, or none: a pure function of the measurements.

What the next trials of a task may win is a part of the seconds that it takes in a step. That part
is about what first trials win with products that a model cut, and halves with each batch that won
nothing: of 40 products of SqueezeNet the first four trials won 5.0 % of their time, and batches
after them from nothing to 3.3 % (batch 4, a core of a Xeon). Of a task that was never measured
it is larger: the model may be wrong about it by a multiple, as where LLVM keeps the sums of a tile
in memory, and then about its seconds as well.
"""

from collections.abc import Sequence
from dataclasses import dataclass

# Expected gain of a task's first batch and of a later one, and the least of all together, as parts
# of a step, to go on.
_UNKNOWN, _HOPE, _WORTH = 0.5, 0.06, 0.01


@dataclass
class Progress:
    """The progress of a task.

    Attributes:
        estimated: seconds in a step, by a model.
        usual: measured seconds in a step of the usual kernel; None before.
        gain: of the best choice.
        trials: measured, or failed.
        misses: batches since the last gain.
        is_over: whether its search has nothing left to propose.
    """

    estimated: float
    usual: float | None = None
    gain: float = 1.0
    trials: int = 0
    misses: int = 0
    is_over: bool = False

    def measured(self, gains: Sequence[float], usual: float | None, best: float) -> None:
        """Adds a batch: its gains, seconds of the usual kernel, the best gain so far."""
        self.trials += len(gains)
        self.usual = usual if self.usual is None else self.usual
        self.misses = 0 if best > self.gain else self.misses + 1
        self.gain = max(self.gain, best)


def seconds_of(tasks: Sequence[Progress]) -> list[float]:
    """Seconds of each task in a step as it is now: those that were not measured yet are scaled."""
    known = [task for task in tasks if task.usual is not None]
    estimated = sum(task.estimated for task in known)
    scale = sum(task.usual or 0.0 for task in known) / estimated if estimated else 1.0
    return [
        (task.estimated * scale if task.usual is None else task.usual) / task.gain for task in tasks
    ]


def next_tasks(tasks: Sequence[Progress], shares: float, count: int) -> list[int]:
    """The tasks whose next batches are worth most; none where all together are worth too little.

    Args:
        tasks: all of them.
        shares: part of the step that they are.
        count: of tasks, at most.
    """
    seconds = seconds_of(tasks)
    hopes = {
        number: now * (_HOPE / 2**task.misses if task.trials else _UNKNOWN)
        for number, (task, now) in enumerate(zip(tasks, seconds, strict=True))
        if not task.is_over
    }
    if not hopes or sum(hopes.values()) < _WORTH * sum(seconds) / shares:
        return []
    return sorted(hopes, key=lambda number: (-hopes[number], number))[:count]
