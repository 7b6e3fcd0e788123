"""The linear program of one stage of a step: tensors worth keeping, and the least cost of the rest.

When a task runs first, each tensor that later tasks read is alive, or is made again after it, by a
task of whose reads the same holds, or is fetched from a storage. What is alive fits a limit. Which
choice takes the least time is an integer program, a cut through that of Checkmate (Jain et al.,
MLSys 2020) at one of its stages. Only the limit joins its choices, so its linear relaxation is
nearly integral, and solved within milliseconds. No plan within the limit takes less time than the
relaxation.

The same program is solved during a walk, for its current task and the tensors that are alive
then.
"""

from collections.abc import Collection

import highspy
import numpy as np

from odtc.passes.checkpoint.choice import StageChoice
from odtc.passes.checkpoint.problem import Recomputation

# The row that limits bytes.
_BYTES = 0
# A tensor is kept, and a task runs again, if at least this part of it is or does.
_KEPT = 0.5


class StageProgram:
    """The linear program of a stage, the moment at which a task runs first.

    Args:
        problem: the step.
        task: the number of the task.
        alive: tensors that may be kept; all that earlier tasks have made if None.
        pinned: those that have to be; what the task reads if None.
    """

    def __init__(
        self,
        problem: Recomputation,
        task: int,
        alive: Collection[int] | None = None,
        pinned: Collection[int] | None = None,
    ) -> None:
        self._problem, self._task = problem, task
        self._whole = sum(problem.seconds) or 1.0
        # Variables: see `StageConstraints`. A tensor without bytes is always alive.
        pinned = problem.tasks.tasks[task].reads if pinned is None else pinned
        made = problem.program.made(task).tolist()
        self._alive = {each: task + place for place, each in enumerate(made)}
        stored = made if problem.storage else []
        self._fetched = {each: task + len(made) + place for place, each in enumerate(stored)}
        copies = [
            problem.times[problem.store_of(n)] + problem.times[problem.fetch_of(n)] for n in stored
        ]
        seconds = [*problem.seconds[:task], *(0.0 for _ in made), *copies]
        self._seconds = np.array(seconds) / self._whole
        self._bytes = np.zeros(len(seconds))
        self._bytes[task : task + len(made)] = [problem.tasks.sizes[each] for each in made]
        least, most = np.zeros(len(seconds)), np.ones(len(seconds))
        least[[self._alive[each] for each in made if each in pinned]] = 1
        if alive is not None:
            most[[self._alive[each] for each in made if each not in alive]] = 0
        self._solver = highspy.Highs()
        self._solver.silent()
        # For programs of this size, presolve takes longer than solving.
        self._solver.setOptionValue("presolve", "off")
        self._solver.addVars(len(seconds), least, most)
        self._add_rows()

    def cheapest(self, limit: float) -> StageChoice | None:
        """The choice that takes the least time within a limit of bytes.

        None where there is none: no plan is within the limit then.
        """
        return self.within(limit - self._problem.grown[self._task])

    def within(self, room: float) -> StageChoice | None:
        """The choice that takes the least time whose tensors have so many bytes at most."""
        return self._least(self._seconds, np.ones(self._task), room, fetched=1.0)

    def smallest(self, again: Collection[int]) -> StageChoice | None:
        """The choice of fewest bytes of those in which only certain tasks run again.

        It is a minimum cut between what was made and what is going to be read.
        """
        allowed = np.array([number in again for number in range(self._task)], float)
        return self._least(self._bytes, allowed, highspy.kHighsInf, fetched=0.0)

    def _least(
        self, costs: np.ndarray, again: np.ndarray, room: float, *, fetched: float
    ) -> StageChoice | None:
        """The choice of least costs, by how much each task may run again and tensors be fetched."""
        if not len(costs):
            return None if room < 0 else StageChoice(self._task, frozenset(), 0.0)
        solver, places = self._solver, np.arange(len(costs), dtype=np.int32)
        solver.changeColsCost(len(costs), places, costs)
        solver.changeColsBounds(self._task, places[: self._task], np.zeros(self._task), again)
        copied = places[len(places) - len(self._fetched) :]
        solver.changeColsBounds(
            len(copied), copied, np.zeros(len(copied)), np.full(len(copied), fetched)
        )
        solver.changeRowBounds(_BYTES, -highspy.kHighsInf, room)
        solver.run()
        if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        values = np.array(solver.getSolution().col_value)
        is_one = (values >= _KEPT).tolist()
        kept, waiting = (
            frozenset(each for each, place in places.items() if is_one[place])
            for places in (self._alive, self._fetched)
        )
        run = frozenset(np.flatnonzero(values[: self._task] >= _KEPT).tolist())
        seconds = float(self._seconds @ values) * self._whole
        return StageChoice(self._task, kept, max(0.0, seconds), waiting, run)

    def _add_rows(self) -> None:
        """Gives the solver the limit, and what has to be there after the moment."""
        solver, rows = self._solver, self._problem.program.rows(self._task)
        alive = np.array(list(self._alive.values()), np.int32)
        no_limit = -highspy.kHighsInf, highspy.kHighsInf
        solver.addRow(*no_limit, len(alive), alive, self._bytes[alive])
        most = np.full(len(rows.least), highspy.kHighsInf)
        counts = len(rows.least), rows.least, most, len(rows.columns)
        solver.addRows(*counts, rows.starts, rows.columns, rows.values)
