"""Removes needless repetitions from a plan.

What a repetition would have made is kept from before: leaving one out is always possible, and takes
bytes from the last reader of the earlier copy on. The same is true of what is fetched; what is not
fetched any more is not stored.

`passes/native/retention.h` does the same in C++, and changes with it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from odtc.passes.checkpoint.problem import Plan, Recomputation, plan_of

# Bytes that a change adds from one place to another one, both included.
_Change = tuple[int, int, int]


def retained(problem: Recomputation, sequence: Sequence[int], limit: int) -> Plan:
    """The plan with repetitions left out, the longest first, as long as it is within the limit."""
    native = problem.native
    left = (
        native.retained(sequence, limit) if native else retained_in_python(problem, sequence, limit)
    )
    return plan_of(problem, left)


def retained_in_python(problem: Recomputation, sequence: Sequence[int], limit: int) -> list[int]:
    """Returns a sequence without its needless repetitions, as `native/retention.h` does."""
    lives = _Lives(problem, sequence)
    seen: set[int] = set()
    repeated = []
    for place, number in enumerate(sequence):
        if number in seen or problem.is_fetch(number):
            repeated.append(place)
        seen.add(number)
    left_out = {
        place
        for place in sorted(repeated, key=lambda each: (-problem.times[sequence[each]], each))
        if lives.leave_out(place, limit)
    }
    left = [n for place, n in enumerate(sequence) if place not in left_out]
    fetched = {problem.moved(n) for n in left if problem.is_fetch(n)}
    return [n for n in left if not problem.is_copy(n) or problem.moved(n) in fetched]


@dataclass
class _Copy:
    """A copy of a tensor: the place that makes it, and those that read it, in order."""

    made: int
    reads: list[int] = field(default_factory=list)

    @property
    def last(self) -> int:
        return self.reads[-1] if self.reads else self.made


class _Lives:
    """The copies of all tensors of a sequence, and the bytes that are alive at each place.

    A place whose task is left out stays, and nothing is made or read there.
    """

    def __init__(self, problem: Recomputation, sequence: Sequence[int]) -> None:
        self._tasks, self._sizes = problem.every, problem.tasks.sizes
        self._sequence = sequence
        self._copies: list[list[_Copy]] = [[] for _ in self._sizes]
        for place, number in enumerate(sequence):
            for tensor in self._tasks[number].reads:
                self._copies[tensor][-1].reads.append(place)
            for tensor in self._tasks[number].allocates:
                self._copies[tensor].append(_Copy(place))
        for tensor in problem.tasks.kept:
            self._copies[tensor][-1].reads.append(len(sequence))
        change = np.zeros(len(sequence) + 2, np.int64)
        for tensor, copies in enumerate(self._copies):
            for copy in copies:
                change[copy.made] += self._sizes[tensor]
                change[copy.last + 1] -= self._sizes[tensor]
        self._alive = np.cumsum(change[:-1])

    def leave_out(self, place: int, limit: int) -> bool:
        """Leaves a repetition out if the rest is within the limit; returns whether it did."""
        changes = list(self._changes(place))
        for first, last, size in changes:
            self._alive[first : last + 1] += size
        if any(
            size > 0 and first <= last and self._alive[first : last + 1].max() > limit
            for first, last, size in changes
        ):
            for first, last, size in changes:
                self._alive[first : last + 1] -= size
            return False
        self._forget(place)
        return True

    def _changes(self, place: int) -> Iterator[_Change]:
        task = self._tasks[self._sequence[place]]
        for tensor in task.allocates:
            before, copy = self._around(tensor, place)
            if copy.reads:
                yield before.last + 1, place - 1, self._sizes[tensor]
            else:
                yield place, place, -self._sizes[tensor]
        for tensor in task.reads:
            reads = self._read_at(tensor, place).reads
            if reads[-1] == place:
                end = reads[-2] if len(reads) > 1 else self._read_at(tensor, place).made
                yield end + 1, place, -self._sizes[tensor]

    def _forget(self, place: int) -> None:
        task = self._tasks[self._sequence[place]]
        for tensor in task.allocates:
            before, copy = self._around(tensor, place)
            before.reads += copy.reads
            self._copies[tensor].remove(copy)
        for tensor in task.reads:
            self._read_at(tensor, place).reads.remove(place)

    def _around(self, tensor: int, place: int) -> tuple[_Copy, _Copy]:
        """The copy that is made at a place, and the one before it."""
        copies = self._copies[tensor]
        number = bisect_left(copies, place, key=lambda copy: copy.made)
        return copies[number - 1], copies[number]

    def _read_at(self, tensor: int, place: int) -> _Copy:
        """The copy that is read at a place."""
        copies = self._copies[tensor]
        return copies[bisect_right(copies, place, key=lambda copy: copy.made) - 1]
