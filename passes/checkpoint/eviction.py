"""A plan within a limit, made from the first task to the last.

Where a task does not fit, tensors are dropped: those that cost least to compute again for their
bytes and the time until they are read next. What is read and not there is computed again, with all
that it needs. The score is that of Dynamic Tensor Rematerialization (Kirisame et al., ICLR 2021),
which has to guess from the past when a tensor is read next; a step is known. A choice of what is
alive at one moment (`moment.py`) goes before the score: what it does not keep is dropped first, and
what it makes other tensors again from stays until then. It may be asked for anew whenever all that
it does not keep is gone.

Where a later task changes what a tensor is made from, such as the update of a weight, the tensor is
made again before that task, if it is read behind it.

With a storage, what is dropped may be stored, and is fetched then: where that takes less time than
to compute it again, or the choice says so, or it cannot be computed again.
"""

import math
from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace
from itertools import accumulate

from odtc.passes.checkpoint.guide import Guide
from odtc.passes.checkpoint.moment import Choice, Moment
from odtc.passes.checkpoint.problem import Recomputation

# What is dropped has at least this part of the bytes that are missing.
_LEAST = 256
# Where tensors that are dropped need each other, they can be computed again without end: what takes
# so many times the calls of the step is no plan.
_MOST = 20
# How often a choice is asked for anew: where more would be needed, there is mostly no plan.
_LOOKS = 50
# To rank tensors, chains of calls are followed so far at first, and those of the lowest ranks so
# many times further until they are known to the end.
_FOLLOWED, _FURTHER = 8, 8


@dataclass(frozen=True)
class Score:
    """How tensors are chosen: the lowest product of powers is dropped.

    Attributes:
        cost: exponent of the time that it takes to compute a tensor again.
        size: of its bytes, in the denominator.
        wait: of the time until it is read, in the denominator.
    """

    cost: float = 1.0
    size: float = 1.0
    wait: float = 1.0


@dataclass
class _Walk:
    """A step so far."""

    problem: Recomputation
    limit: int
    score: Score
    guide: Guide
    slack: float
    looks: int
    now: int = 0
    used: int = 0
    alive: set[int] = field(default_factory=set)
    sequence: list[int] = field(default_factory=list)
    stored: set[int] = field(default_factory=set)

    def __post_init__(self):
        problem = self.problem
        self.makers, self.sizes = problem.tasks.makers, problem.tasks.sizes
        # How many of the tasks that read a tensor have run first.
        self.read = [0] * len(self.sizes)
        self.clock = [0.0, *accumulate(problem.seconds)]

    def next_use(self, tensor: int) -> int | None:
        """The next task that reads a tensor, if one does."""
        uses, done = self.problem.uses[tensor], self.read[tensor]
        return uses[done] if done < len(uses) else None

    def next_help(self, tensor: int) -> int | None:
        """The next task that reads what is made again from a tensor, where the guide says so."""
        if not self.guide.helps(tensor):
            return None
        uses = (
            min(use, self.problem.last_made[made])
            for made in self.guide.made_from(tensor)
            if (use := self.next_use(made)) is not None
        )
        return min((use for use in uses if use >= self.now), default=None)

    def is_needed(self, tensor: int) -> bool:
        """Whether a tensor is read later, or something is made again from it."""
        return self.next_use(tensor) is not None or self.next_help(tensor) is not None

    def chain(self, tensor: int, use: int, most: float = math.inf) -> tuple[float, bool]:
        """Seconds to compute a tensor again before a task, with what is not there by then.

        Args:
            tensor: the tensor.
            use: number of the task.
            most: calls that are followed.

        Returns:
            Seconds of those calls, and whether there are no others.
        """
        pending, seen, seconds = [self.makers[tensor]], {self.makers[tensor]}, 0.0
        while pending and most:
            most -= 1
            number = pending.pop()
            seconds += self.problem.times[number]
            for each in self.problem.every[number].reads:
                maker = self.maker(each)
                if maker not in seen and not self.is_there(each, use):
                    seen.add(maker)
                    pending.append(maker)
        return seconds, not pending

    def due(self, tensor: int) -> int | None:
        """The task before which a tensor has to be there again, if it is dropped now.

        None where it may not be dropped: it is not read any more, or cannot be made again.
        """
        use, last = self.next_use(tensor), self.problem.last_made[tensor]
        if use is None:
            return self.next_help(tensor)
        if use <= last:
            return use
        if self.now < last and tensor not in self.stored:
            return last
        return use if self.problem.storage is not None else None

    def last_calls(self, number: int) -> list[int]:
        """Tensors that are read behind a task that changes what they are made from."""
        return [
            tensor
            for tensor in self.problem.made_before[number]
            if tensor not in self.stored and (self.next_use(tensor) or 0) > number
        ]

    def maker(self, tensor: int) -> int:
        """The task that makes a tensor again."""
        return self.problem.fetch_of(tensor) if tensor in self.stored else self.makers[tensor]

    def cost(self, tensor: int, use: int, most: float) -> tuple[float, bool]:
        """Seconds to have a tensor again before a task, if it is dropped; as of `chain`."""
        problem = self.problem
        if tensor in self.stored:
            return problem.times[problem.fetch_of(tensor)], True
        if self.is_to_be_stored(tensor, use):
            copies = problem.store_of(tensor), problem.fetch_of(tensor)
            return sum(problem.times[each] for each in copies), True
        return self.chain(tensor, use, most)

    def is_to_be_stored(self, tensor: int, use: int) -> bool:
        """Whether a tensor is to be stored when it is dropped."""
        problem = self.problem
        if problem.storage is None or tensor in self.stored:
            return False
        if use > problem.last_made[tensor] or self.guide.is_fetched(tensor, self.now):
            return True
        copies = problem.times[problem.store_of(tensor)] + problem.times[problem.fetch_of(tensor)]
        return copies < self.chain(tensor, use)[0]

    def is_there(self, tensor: int, use: int) -> bool:
        """Whether a tensor that is alive now is still read by a task or later."""
        uses = self.problem.uses[tensor]
        if tensor not in self.alive:
            return False
        return (bool(uses) and uses[-1] >= use) or self.guide.helps(tensor)

    def drop_for(self, size: int, pinned: Container[int]) -> bool:
        """Drops tensors until so many bytes fit."""
        if self.used + size > self.limit:
            self.drop_helpers(pinned)
        missing = self.used + size - self.limit
        if missing <= 0:
            return True
        candidates = self.candidates(missing, pinned)
        if sum(self.sizes[tensor] for tensor in candidates) < missing:
            return False
        if self.looks and missing > sum(self.sizes[each] for each in self.unwanted(candidates)):
            self.looks -= 1
            self.look_again(size, pinned)
        # The ranks of those that are left change with each that goes; mostly one is enough.
        for lowest in self.lowest(candidates, missing):
            if self.is_to_be_stored(lowest, candidates[lowest]):
                self.sequence.append(self.problem.store_of(lowest))
                self.stored.add(lowest)
            self.alive.remove(lowest)
            self.used -= self.sizes[lowest]
        return True

    def drop_helpers(self, pinned: Container[int]) -> None:
        """Drops what was kept to make others again from, where these have been made."""
        for tensor in [each for each in self.alive if self.guide.helps(each)]:
            if tensor not in pinned:
                self.drop_read(tensor)

    def candidates(self, missing: int, pinned: Container[int]) -> dict[int, int]:
        """What may be dropped, with the tasks before which it has to be there again."""
        return {
            tensor: due
            for tensor in self.alive
            if tensor not in pinned
            and self.sizes[tensor] * _LEAST > missing
            and (due := self.due(tensor)) is not None
        }

    def unwanted(self, candidates: Mapping[int, int]) -> dict[int, int]:
        """Those that the guide would drop first."""
        return {
            tensor: due
            for tensor, due in candidates.items()
            if not self.guide.is_wanted(tensor, due, self.now)
        }

    def look_again(self, size: int, pinned: Container[int]) -> None:
        """Asks what of all that is alive is worth keeping beside so many bytes."""
        fixed = {each for each in self.alive if each in pinned or self.due(each) is None}
        held = sum(self.sizes[each] for each in fixed)
        moment, room = Moment(self.problem, self.now, self.alive, fixed), self.limit - size - held
        choice = moment.within(held + (1 - self.slack) * room) or moment.within(held + room)
        if choice is not None:
            self.guide.turn_to(choice, self.alive - choice.kept - fixed)

    def lowest(self, candidates: Mapping[int, int], missing: int) -> list[int]:
        """Those of the lowest ranks, as many as have the bytes that are missing."""
        # What the guide would drop ranks before all else.
        unwanted = self.unwanted(candidates)
        if sum(self.sizes[tensor] for tensor in unwanted) >= missing:
            candidates = unwanted
        ranked = [self.rank(each, use, _FOLLOWED) for each, use in candidates.items()]
        heapify(ranked)
        found: list[int] = []
        while missing > 0:
            _, tensor, most = ranked[0]
            if most:
                heapreplace(ranked, self.rank(tensor, candidates[tensor], most * _FURTHER))
                continue
            heappop(ranked)
            found.append(tensor)
            missing -= self.sizes[tensor]
        return found

    def rank(self, tensor: int, use: int, most: float) -> tuple[tuple[bool, float], int, float]:
        """What tensors are chosen by: the rank or less, the tensor, and how far that is followed.

        The last is 0 where the rank is exact.
        """
        wait = self.clock[use] - self.clock[self.now] + 1e-9
        cost, is_whole = self.cost(tensor, use, most)
        rank = cost**self.score.cost / self.sizes[tensor] ** self.score.size / wait**self.score.wait
        is_wanted = self.guide.is_wanted(tensor, use, self.now)
        return (is_wanted, rank), tensor, 0 if is_whole else most

    def run(self, number: int) -> bool:
        """Runs a task, after those that make what it reads; keeps what is read later."""
        waiting = [_Waiting(number, [*self.problem.reads[number], *self.last_calls(number)])]
        pinned = Counter(waiting[-1].reads)
        while waiting:
            task = waiting[-1]
            missing = next((each for each in task.reads if each not in self.alive), None)
            if missing is not None:
                maker = self.maker(missing)
                reads = [] if missing in self.stored else self.problem.reads[maker]
                waiting.append(_Waiting(maker, reads, missing))
                pinned.update(waiting[-1].reads)
                continue
            if not self.compute(task, pinned):
                return False
            waiting.pop()
            for tensor in task.reads:
                pinned[tensor] -= 1
                if not pinned[tensor]:
                    del pinned[tensor]
                    self.drop_read(tensor)
        return True

    def compute(self, task: "_Waiting", pinned: Container[int]) -> bool:
        """Runs a task whose tensors are there, if what it makes fits."""
        if len(self.sequence) >= _MOST * len(self.problem.seconds):
            return False
        allocates = self.problem.every[task.number].allocates
        new = [tensor for tensor in allocates if tensor not in self.alive]
        if not self.drop_for(sum(self.sizes[each] for each in new), pinned):
            return False
        self.sequence.append(task.number)
        self.guide.has_made(new)
        if task.number != self.now:
            self.guide.has_run_again(task.number)
        else:
            self.now += 1
            for tensor in self.problem.reads[task.number]:
                self.read[tensor] += 1
        for tensor in new:
            if tensor == task.wanted or self.is_needed(tensor):
                self.alive.add(tensor)
                self.used += self.sizes[tensor]
        return True

    def drop_read(self, tensor: int) -> None:
        """Drops a tensor if nothing needs it any more."""
        if tensor in self.alive and not self.is_needed(tensor):
            self.alive.remove(tensor)
            self.used -= self.sizes[tensor]


@dataclass(frozen=True)
class _Waiting:
    """A task that waits for what it reads.

    Attributes:
        number: of the task.
        reads: tensors.
        wanted: the tensor that it runs again for, if it does.
    """

    number: int
    reads: list[int]
    wanted: int | None = None


def evicting(
    problem: Recomputation,
    limit: int,
    score: Score,
    choice: Choice | None = None,
    slack: float | None = None,
) -> list[int] | None:
    """A sequence whose peak is at most `limit`, or None where this finds none.

    Args:
        problem: the step.
        limit: bytes.
        score: how tensors are chosen.
        choice: of what is alive at a moment; goes before the score.
        slack: whether another one is asked for where the walk stands, once all is gone that the
            last one does not keep: the part of the room that it leaves free, so that it lasts for
            some tasks, or None.
    """
    looks = 0 if slack is None else _LOOKS
    walk = _Walk(problem, limit, score, Guide(problem, choice), slack or 0.0, looks)
    for number in range(len(problem.tasks.tasks)):
        if not walk.run(number):
            return None
    return walk.sequence
