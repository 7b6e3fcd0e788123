"""Plans that take snapshots by the binomial schedule (Griewank and Walther, "Revolve", 2000).

The forward pass is a chain of segments. With `s` snapshots, the states between segments that are
kept at one time, and at most `t` forward sweeps over each segment, as many as `s + t` over `s`
segments can be reversed: far fewer bytes than one level of checkpoints needs, for more time.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import comb

from odtc.passes.checkpoint.plans.keeping import KeepingWalk
from odtc.passes.checkpoint.plans.segments import borders_of, crossing_of
from odtc.passes.checkpoint.problem import Recomputation

# Tasks of a segment, about, and the most snapshots.
_LENGTHS = (2, 4, 8)
_MOST = 16


def revolving(problem: Recomputation) -> Iterator[list[int]]:
    """Sequences of tasks."""
    crossing = crossing_of(problem)
    for length in _LENGTHS:
        count = problem.turn // length
        if count < 2:
            return
        borders = (0, *borders_of(problem, crossing, count), problem.turn)
        states = [frozenset(crossing[start]) for start in borders[:-1]]
        for snapshots in range(1, min(_MOST, len(states)) + 1):
            yield _Reversal(problem, borders, states, snapshots).sequence()


def split(segments: int, snapshots: int) -> int:
    """After how many of some segments the next snapshot is taken, with so many still free.

    The state before the first one is kept too.
    """
    kept, sweeps = snapshots + 1, 1
    while comb(kept + sweeps, kept) < segments:
        sweeps += 1
    most = comb(kept + sweeps - 1, kept), segments - comb(snapshots + sweeps - 1, snapshots)
    return max(1, min(most))


class _Reversal:
    """The backward pass over segments.

    Args:
        problem: the step.
        borders: first tasks of the segments, and that of the backward pass.
        states: tensors of earlier segments that each segment reads.
        snapshots: states that are kept at one time.
    """

    def __init__(
        self,
        problem: Recomputation,
        borders: Sequence[int],
        states: Sequence[frozenset[int]],
        snapshots: int,
    ) -> None:
        self._problem, self._states, self._snapshots = problem, states, snapshots
        tasks = problem.tasks.tasks
        self._made = [
            frozenset(each for task in tasks[first:last] for each in task.allocates)
            for first, last in pairwise(borders)
        ]
        self._segment = {each: number for number, made in enumerate(self._made) for each in made}
        # Tensors that can be made again whenever they are read.
        self._free = {
            tensor
            for tensor in self._segment
            if (uses := problem.uses[tensor]) and uses[-1] <= problem.last_made[tensor]
        }
        self._stack: list[int] = []

    def sequence(self) -> list[int]:
        """The sequence of tasks."""
        walk = KeepingWalk(self._problem)
        self._advance(len(self._states) - 1)
        for number, task in enumerate(self._problem.tasks.tasks):
            if number < self._problem.turn:
                walk.run(number)
                continue
            if number == self._problem.turn:
                walk.present -= self._free - self._kept(len(self._states) - 1)
            now = max((self._segment[each] for each in task.reads & self._free), default=None)
            if now is not None:
                self._advance(now)
            walk.run(number)
            if now is not None:
                walk.present -= self._free - self._kept(now)
        return walk.sequence

    def _advance(self, last: int) -> None:
        """Takes snapshots on the way to a segment, from the last one before it."""
        while self._stack and self._stack[-1] > last:
            self._stack.pop()
        start = self._stack[-1] if self._stack else 0
        while (room := self._snapshots - len(self._stack)) > 0 and start < last:
            start += split(last + 1 - start, room)
            self._stack.append(start)

    def _kept(self, now: int) -> frozenset[int]:
        """Returns the tensors that are kept while the backward pass is in a segment."""
        return self._made[now].union(self._states[now], *(self._states[at] for at in self._stack))
