"""A plan within a limit, made from the step as it is by removing the excess step by step.

Where too many bytes are alive, a tensor that waits there for its next reader is made again before
that reader instead. What it is made from waits longer then, or is made again too. Each change is
the one that frees most for the time that it takes, weighed by how far each moment is above the
limit, and is kept if less is above it in all. So all moments are seen at once, where a walk sees
the current one, and `stage_program.py` one.

`passes/native/repair.h` does the same in C++, and changes with it.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from odtc.passes.checkpoint.problem import Recomputation, alive_during
from odtc.passes.native.planner import Repairs

# Depth of calls to which missing tensors are made again.
_DEPTH = 3
# A moment that is a thirtieth of the limit lower weighs less by a factor of e.
_STEEP = 30.0
# Most changes that are examined without success, and in all.
_TRIED, _MOST = 60, 1000


@dataclass
class _Copy:
    """A tensor that was made at a place.

    Attributes:
        tensor: the tensor.
        made: the place.
        reads: places that read it, rising.
    """

    tensor: int
    made: int
    reads: list[int] = field(default_factory=list)

    @property
    def last(self) -> int:
        """The place up to which it is alive."""
        return self.reads[-1] if self.reads else self.made


@dataclass(frozen=True)
class _Change:
    """Tasks that run again before a place.

    Attributes:
        place: of the sequence.
        tasks: that run there, in order.
        worth: bytes that it frees, weighed by moments, for each second.
    """

    place: int
    tasks: list[int]
    worth: float


class _Sequence:
    """A sequence, and the tensors that are alive at each place."""

    def __init__(self, problem: Recomputation, limit: int, sequence: list[int]) -> None:
        self.problem, self.sequence = problem, sequence
        self.during = np.array(alive_during(problem, sequence), float)
        self.above = float(np.maximum(self.during - limit, 0).sum())
        self._over = self.during > limit
        weights = np.clip(_STEEP * (self.during / limit - 1), -_STEEP, _STEEP)
        # The exponentials of the system, as C++ has them; NumPy's are rounded otherwise.
        self._weight = [0.0, *accumulate(map(math.exp, weights.tolist()))]
        self._crossed = [0, *accumulate(self._over.astype(int).tolist())]
        self._find_copies()

    def _find_copies(self) -> None:
        """Finds copies, and for each tensor those of it in order."""
        problem = self.problem
        self._copies: list[list[_Copy]] = [[] for _ in problem.tasks.sizes]
        self._ran: list[int] = []
        ran = 0
        for place, number in enumerate(self.sequence):
            self._ran.append(ran)
            ran = max(ran, number + 1)
            for tensor in problem.tasks.tasks[number].reads:
                self._copies[tensor][-1].reads.append(place)
            for tensor in problem.tasks.tasks[number].allocates:
                self._copies[tensor].append(_Copy(tensor, place))
        for tensor in problem.tasks.kept:
            self._copies[tensor][-1].reads.append(len(self.sequence))

    def changes(self) -> Iterator[_Change]:
        """Yields tensors that could be made again, instead of waiting where too much is alive."""
        for copy in (each for copies in self._copies for each in copies):
            for start, end in zip([copy.made, *copy.reads], copy.reads, strict=False):
                if end < len(self.sequence) and self._crossed[end] > self._crossed[start + 1]:
                    for depth in range(_DEPTH):
                        if (change := self._change(copy.tensor, start, end, depth)) is not None:
                            yield change

    def _change(self, tensor: int, start: int, end: int, depth: int) -> _Change | None:
        """A tensor that is made again before a place instead of waiting from another one."""
        tasks: list[int] = []
        harm = self._made(tensor, end, depth, tasks)
        if harm is None:
            return None
        gain = self._wait(tensor, start, end) - harm
        # One after the other: `sum` makes up for what is rounded off.
        seconds = 0.0
        for number in tasks:
            seconds += self.problem.seconds[number]
        return _Change(end, tasks, gain / (seconds or 1e-12)) if gain > 0 else None

    def _wait(self, tensor: int, start: int, end: int) -> float:
        """Weighed bytes of a tensor between two places."""
        weight = self._weight[end] - self._weight[start + 1]
        return self.problem.tasks.sizes[tensor] * weight

    def _made(self, tensor: int, end: int, depth: int, tasks: list[int]) -> float | None:
        """Weighed bytes that making a tensor again before a place adds; its tasks are appended."""
        number = self.problem.tasks.makers[tensor]
        if number in tasks:
            return 0.0
        if not self._may_run(number, tensor, end):
            return None
        harm = 0.0
        for each in self.problem.reads[number]:
            added = self._there(each, end, depth, tasks)
            if added is None:
                return None
            harm += added
        tasks.append(number)
        return harm

    def _may_run(self, number: int, wanted: int, end: int) -> bool:
        """Whether a task that runs again makes the same of all that is read after it."""
        ran, until = self._ran[end], self.problem.until
        if ran > min(self.problem.last_run[number], until[wanted]):
            return False
        made = self.problem.tasks.tasks[number].allocates
        return all(ran <= until[each] or self._copies[each][-1].last < end for each in made)

    def _there(self, tensor: int, end: int, depth: int, tasks: list[int]) -> float | None:
        """Weighed bytes that having a tensor at a place adds."""
        copy = next(each for each in reversed(self._copies[tensor]) if each.made < end)
        if copy.last >= end:
            return 0.0
        if self._ran[copy.made] > self.problem.until[tensor] and self._is_again(copy):
            return None
        waits = self._wait(tensor, copy.last, end)
        if depth:
            again = list(tasks)
            harm = self._made(tensor, end, depth - 1, again)
            if harm is not None and harm < waits:
                tasks[:] = again
                return harm
        return waits

    def _is_again(self, copy: _Copy) -> bool:
        """Whether a copy is not the first of its tensor."""
        return copy is not self._copies[copy.tensor][0]

    def changed(self, change: _Change) -> list[int]:
        """The sequence with a change."""
        before, behind = self.sequence[: change.place], self.sequence[change.place :]
        return [*before, *change.tasks, *behind]


def repaired(problem: Recomputation, limit: int, sequence: Sequence[int]) -> list[int] | None:
    """A sequence whose peak is at most `limit`, or None where this finds none.

    Args:
        problem: the step.
        limit: bytes.
        sequence: to begin with, without copies to a storage.
    """
    if limit < max(1, problem.largest):
        return None
    if problem.native:
        return problem.native.repaired(limit, Repairs(_DEPTH, _TRIED, _MOST, _STEEP), sequence)
    now, left = _Sequence(problem, limit, list(sequence)), _MOST
    while now.above:
        better = None
        for change in sorted(now.changes(), key=lambda each: -each.worth)[: min(_TRIED, left)]:
            left -= 1
            changed = _Sequence(problem, limit, now.changed(change))
            if changed.above < now.above:
                better = changed
                break
        if better is None:
            return None
        now = better
    return now.sequence
