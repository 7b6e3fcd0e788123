"""Constraint rows of the programs of all moments of a step, from which those of one are sliced.

A walk asks at many moments what is worth keeping (`stage_program.py`): made one by one, the rows
take longer than it takes to solve the program.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from odtc.passes.memory.operator_order import Tasks

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class ConstraintRows:
    """Rows of a program, as a solver takes them: each begins at one of the places `starts`.

    Attributes:
        starts: offset of each row in `columns` and `values`.
        columns: the variables of the rows.
        values: coefficients of these.
        least: lower bound of each row's sum.
    """

    starts: NDArray[np.int32]
    columns: NDArray[np.int32]
    values: NDArray[np.float64]
    least: NDArray[np.float64]


class StageConstraints:
    """Rows that require tensors to be there, by the moments at which they hold.

    The variables of a moment are, in this order: whether each earlier task runs again; whether each
    tensor of theirs that has bytes is alive; with a storage, whether each of these is fetched.

    Args:
        tasks: of the step, in their order.
        uses: for each tensor the tasks that read it.
        until: for each tensor the first task after which its maker makes another one.
        has_storage: whether tensors may be fetched from a storage.
    """

    def __init__(
        self,
        tasks: Tasks,
        uses: Sequence[Sequence[int]],
        until: Sequence[int],
        *,
        has_storage: bool,
    ) -> None:
        self._has_storage = has_storage
        self._makers = np.array([tasks.makers[each] for each in range(len(tasks.sizes))], int)
        self._sizes = np.array(tasks.sizes, int)
        self._until = np.array(until, int)
        last = [readers[-1] if readers else -1 for readers in uses]
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

    def rows(self, task: int) -> ConstraintRows:
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
        return ConstraintRows(
            starts.astype(np.int32),
            columns[there].astype(np.int32),
            values,
            np.where(reader < 0, 1.0, 0.0),
        )
