"""The rows of the programs of all moments of a step, from which those of one are taken at once.

A walk asks at many moments what is worth keeping (`stage_program.py`): made one by one, the rows
take longer than it takes to solve the program.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from odtc.passes.checkpoint.problem import Recomputation

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Rows:
    """Rows of a program, as a solver takes them: each begins at one of the places `starts`.

    Attributes:
        starts: where each row begins in what follows.
        columns: the variables of the rows.
        values: what these are multiplied by.
        least: what each row's sum is at least.
    """

    starts: NDArray[np.int32]
    columns: NDArray[np.int32]
    values: NDArray[np.float64]
    least: NDArray[np.float64]


class Program:
    """Rows that say which tensors have to be there, by the moments at which they hold.

    The variables of a moment are, in this order: whether each earlier task runs again; whether each
    tensor of theirs that has bytes is alive; with a storage, whether each of these is fetched.

    Args:
        problem: the step.
    """

    def __init__(self, problem: "Recomputation") -> None:
        tasks = problem.tasks
        self._has_storage = problem.storage is not None
        self._makers = np.array([tasks.makers[each] for each in range(len(tasks.sizes))], int)
        self._sizes = np.array(tasks.sizes, int)
        self._until = np.array(problem.until, int)
        last = [uses[-1] if uses else -1 for uses in problem.uses]
        sized = [each for each, size in enumerate(tasks.sizes) if size]
        # Of each row: the tensor that has to be there, the task that reads it, or none, and the
        # moments from the first to the last at which that is so.
        needed = [(each, -1, tasks.makers[each] + 1, last[each]) for each in sized]
        read = [
            (each, number, number + 1, len(tasks.tasks))
            for number, task in enumerate(tasks.tasks)
            for each in sorted(task.reads)
            if tasks.sizes[each]
        ]
        rows = np.array([*needed, *read], int).reshape(-1, 4)
        self._tensor, self._reader, self._first, self._last = rows.T

    def made(self, task: int) -> Numbers:
        """The tensors with bytes that tasks before one make, in order."""
        return np.flatnonzero((self._makers < task) & (self._sizes > 0))

    def rows(self, task: int) -> Rows:
        """The rows of the moment at which a task runs first."""
        made = self.made(task)
        place = np.full(len(self._sizes), -1)
        place[made] = np.arange(len(made))
        held = (self._first <= task) & (task <= self._last) & (place[self._tensor] >= 0)
        tensor, reader = self._tensor[held], self._reader[held]
        # A column for each way to have the tensor, and for the task that reads it, if it is one's.
        nothing = np.full(len(tensor), -1)
        alive = task + place[tensor]
        again = np.where(self._until[tensor] > task, self._makers[tensor], -1)
        fetched = alive + len(made) if self._has_storage else nothing
        columns = np.stack([alive, again, fetched, reader], axis=1)
        there = columns >= 0
        values = np.broadcast_to([1.0, 1.0, 1.0, -1.0], columns.shape)[there]
        starts = np.concatenate([[0], np.cumsum(there.sum(axis=1))])[: len(tensor)]
        return Rows(
            starts.astype(np.int32),
            columns[there].astype(np.int32),
            values,
            np.where(reader < 0, 1.0, 0.0),
        )
