"""The plan that keeps certain tensors of the forward pass for the backward pass, and no others."""

from collections.abc import Collection

from odtc.passes.checkpoint.problem import Recomputation


def keeping(problem: Recomputation, kept: Collection[int]) -> list[int]:
    """A sequence of tasks: tensors that are not kept are dropped after their last use there.

    It is made again for the backward pass. What cannot be made again is kept in any case.
    """
    walk = KeepingWalk(problem)
    ending: list[list[int]] = [[] for _ in range(problem.turn)]
    for tensor, uses in enumerate(problem.uses):
        forward = [each for each in uses if each < problem.turn]
        last = max([problem.tasks.makers[tensor], *forward])
        again = uses and uses[-1] <= problem.last_made[tensor]
        if last < problem.turn and tensor not in kept and again:
            ending[last].append(tensor)
    for number in range(len(problem.tasks.tasks)):
        walk.run(number)
        if number < problem.turn:
            walk.present.difference_update(ending[number])
    return walk.sequence


class KeepingWalk:
    """A step so far: its tasks, and the tensors that are there.

    Args:
        problem: the step.
    """

    def __init__(self, problem: Recomputation) -> None:
        self._tasks, self._makers = problem.tasks.tasks, problem.tasks.makers
        self.sequence: list[int] = []
        self.present: set[int] = set()

    def run(self, number: int) -> None:
        """Runs a task, after those that make its missing operands."""
        waiting = [number]
        while waiting:
            task = self._tasks[waiting[-1]]
            makers = {self._makers[each] for each in task.reads if each not in self.present}
            if makers:
                waiting += sorted(makers, reverse=True)
                continue
            ready = waiting.pop()
            if ready == number or not self.present.issuperset(task.allocates):
                self.sequence.append(ready)
                self.present.update(task.allocates)
