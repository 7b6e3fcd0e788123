"""Plans that keep what crosses from one segment of the forward pass to the next.

What lies inside of a segment is computed again when the backward pass comes to it (Chen et al.,
"Training Deep Nets with Sublinear Memory Cost", 2016). Segments have about equal bytes; each begins
where few bytes cross. With as many as the root of the number of tasks, a chain takes one more
forward pass.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterator
from itertools import accumulate

from odtc.passes.checkpoint.problem import Recomputation


def segmented(problem: Recomputation) -> Iterator[list[int]]:
    """Sequences of tasks, by rising numbers of segments."""
    crossing = _crossing(problem)
    seen = set()
    count = 2.0
    while count <= problem.turn:
        borders = _borders(problem, crossing, round(count))
        if borders not in seen:
            seen.add(borders)
            yield _keeping(problem, set().union(*(crossing[each] for each in borders)))
        count *= 2**0.5


def _crossing(problem: Recomputation) -> list[set[int]]:
    """For each task of the forward pass, the tensors that it or later ones of these read."""
    alive, found = set[int](), []
    for task in reversed(problem.tasks.tasks[: problem.turn]):
        alive = (alive - set(task.allocates)) | task.reads
        found.append(alive)
    return found[::-1]


def _borders(problem: Recomputation, crossing: list[set[int]], count: int) -> tuple[int, ...]:
    """First tasks of the segments but the first one."""
    sizes = problem.tasks.sizes
    total = list(accumulate(problem.grown[: problem.turn]))
    width = total[-1] / count
    found = []
    for number in range(1, count):
        first, last = (
            min(max(bisect_left(total, width * (number + side)), 1), problem.turn - 1)
            for side in (-0.25, 0.25)
        )
        near = range(first, last + 1)
        found += [min(near, key=lambda at: sum(sizes[each] for each in crossing[at]))]
    return tuple(sorted(set(found)))


def _keeping(problem: Recomputation, kept: Collection[int]) -> list[int]:
    """The sequence in which the forward pass keeps certain tensors, and what is not made again."""
    walk = _Walk(problem)
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


class _Walk:
    """A step so far: its tasks, and the tensors that are there."""

    def __init__(self, problem: Recomputation) -> None:
        self._tasks, self._makers = problem.tasks.tasks, problem.tasks.makers
        self.sequence: list[int] = []
        self.present: set[int] = set()

    def run(self, number: int) -> None:
        """Runs a task, after those that make what it reads and is not there."""
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
