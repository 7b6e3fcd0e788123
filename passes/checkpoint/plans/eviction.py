"""A plan within a limit, made from the first task to the last.

Where a task does not fit, tensors are dropped: those that cost least to compute again for their
bytes and the time until they are read next. What is read and not there is computed again, with all
that it needs. The score is that of Dynamic Tensor Rematerialization (Kirisame et al., ICLR 2021),
which has to guess from the past when a tensor is read next; a step is known. A choice of what is
alive at one moment (`stage_program.py`) goes before the score: what it does not keep is dropped
first, and what it makes other tensors again from stays until then. It may be asked for anew
whenever all that it does not keep is gone.

Where a later task changes what a tensor is made from, such as the update of a weight, the tensor is
made again before that task, if it is read after it.

With a storage, what is dropped may be stored, and is fetched then: where that takes less time than
to compute it again, or the choice says so, or it cannot be computed again.

`passes/native/eviction.h` does the same in C++, and changes with it.
"""

from collections import Counter
from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace

from odtc.passes.checkpoint.choice import StageChoice
from odtc.passes.checkpoint.plans.guide import Guide
from odtc.passes.checkpoint.plans.walk_state import WalkState
from odtc.passes.checkpoint.problem import Recomputation
from odtc.passes.checkpoint.stage_program import StageProgram
from odtc.passes.native.planner import Rules

# A dropped tensor has at least this part of the missing bytes.
_LEAST = 256
# Where dropped tensors need each other, recomputation may never end: a sequence of so many times
# the calls of the step is no plan.
_MOST = 20
# How often a choice is asked for anew: where more would be needed, there is mostly no plan.
_LOOKS = 50
# To rank tensors, chains of calls are followed so far at first, and those of the lowest ranks so
# many times further until they are known to the end.
_FOLLOWED, _FURTHER = 8, 8


@dataclass(frozen=True)
class Score:
    """The score of tensors: the one with the lowest product of powers is dropped.

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
    """A walk through a step: its current position, and the sequence so far."""

    at: WalkState
    limit: int
    score: Score
    slack: float
    looks: int
    sequence: list[int] = field(default_factory=list)

    def drop_for(self, size: int, pinned: Container[int]) -> bool:
        """Drops tensors until so many bytes fit."""
        if self.at.used + size > self.limit:
            self.drop_helpers(pinned)
        missing = self.at.used + size - self.limit
        if missing <= 0:
            return True
        candidates = self.candidates(missing, pinned)
        if sum(self.at.sizes[tensor] for tensor in candidates) < missing:
            return False
        if self.looks and missing > sum(self.at.sizes[each] for each in self.unwanted(candidates)):
            self.looks -= 1
            self.look_again(size, pinned)
        # The ranks of those that are left change with each that goes; mostly one is enough.
        for lowest in self.lowest(candidates, missing):
            if self.at.is_to_be_stored(lowest, candidates[lowest]):
                self.sequence.append(self.at.problem.store_of(lowest))
                self.at.stored.add(lowest)
            self.at.drop(lowest)
        return True

    def drop_helpers(self, pinned: Container[int]) -> None:
        """Drops tensors kept to make others again from, once these have been made."""
        for tensor in [each for each in self.at.alive if self.at.guide.helps(each)]:
            if tensor not in pinned:
                self.drop_read(tensor)

    def candidates(self, missing: int, pinned: Container[int]) -> dict[int, int]:
        """Returns tensors that may be dropped, with the tasks before which they must be back."""
        return {
            tensor: due
            for tensor in self.at.alive
            if tensor not in pinned
            and self.at.sizes[tensor] * _LEAST > missing
            and (due := self.at.due(tensor)) is not None
        }

    def unwanted(self, candidates: Mapping[int, int]) -> dict[int, int]:
        """Returns the candidates that the guide would drop first."""
        return {
            tensor: due
            for tensor, due in candidates.items()
            if not self.at.guide.is_wanted(tensor, due, self.at.now)
        }

    def look_again(self, size: int, pinned: Container[int]) -> None:
        """Asks which live tensors are worth keeping beside so many bytes."""
        at = self.at
        fixed = {each for each in at.alive if each in pinned or at.due(each) is None}
        held = sum(at.sizes[each] for each in fixed)
        room = self.limit - size - held
        choice = worth_keeping(at.problem, at.now, at.alive, fixed, held, room, self.slack)
        if choice is not None:
            at.guide.turn_to(choice, at.alive - choice.kept - fixed)

    def lowest(self, candidates: Mapping[int, int], missing: int) -> list[int]:
        """Returns the candidates of the lowest ranks, with the bytes that are missing."""
        # What the guide would drop ranks before all else.
        unwanted = self.unwanted(candidates)
        if sum(self.at.sizes[tensor] for tensor in unwanted) >= missing:
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
            missing -= self.at.sizes[tensor]
        return found

    def rank(self, tensor: int, use: int, most: float) -> tuple[tuple[bool, float], int, float]:
        """Returns a key to choose by: at most the rank, the tensor, and how far that is followed.

        The last is 0 where the rank is exact.
        """
        at, score = self.at, self.score
        wait, (cost, is_whole) = at.wait(use) + 1e-9, at.cost(tensor, use, most)
        rank = cost**score.cost / at.sizes[tensor] ** score.size / wait**score.wait
        is_wanted = at.guide.is_wanted(tensor, use, at.now)
        return (is_wanted, rank), tensor, 0 if is_whole else most

    def run(self, number: int) -> bool:
        """Runs a task, after those that make its missing operands; keeps tensors read later."""
        waiting = [_Waiting(number, [*self.at.problem.reads[number], *self.at.last_calls(number)])]
        pinned = Counter(waiting[-1].reads)
        while waiting:
            task = waiting[-1]
            missing = next((each for each in task.reads if each not in self.at.alive), None)
            if missing is not None:
                maker = self.at.maker(missing)
                reads = [] if missing in self.at.stored else self.at.problem.reads[maker]
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
        if len(self.sequence) >= _MOST * len(self.at.problem.seconds):
            return False
        allocates = self.at.problem.every[task.number].allocates
        new = [tensor for tensor in allocates if tensor not in self.at.alive]
        if not self.drop_for(sum(self.at.sizes[each] for each in new), pinned):
            return False
        self.sequence.append(task.number)
        self.at.guide.has_made(new)
        if task.number != self.at.now:
            self.at.guide.has_run_again(task.number)
        else:
            self.at.goes_on()
        for tensor in new:
            if tensor == task.wanted or self.at.is_needed(tensor):
                self.at.add(tensor)
        return True

    def drop_read(self, tensor: int) -> None:
        """Drops a tensor if nothing needs it any more."""
        if tensor in self.at.alive and not self.at.is_needed(tensor):
            self.at.drop(tensor)


@dataclass(frozen=True)
class _Waiting:
    """A task that waits for its operands.

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
    choice: StageChoice | None = None,
    slack: float | None = None,
) -> list[int] | None:
    """A sequence whose peak is at most `limit`, or None where this finds none.

    Args:
        problem: the step.
        limit: bytes.
        score: how tensors are chosen.
        choice: of what is alive at a moment; goes before the score.
        slack: whether another one is asked for at the current task, once all is gone that the
            last one does not keep: the part of the room that it leaves free, so that it lasts for
            some tasks, or None.
    """
    looks = 0 if slack is None else _LOOKS
    if problem.native:

        def look(
            now: int, alive: Collection[int], fixed: Collection[int], held: int, room: int
        ) -> StageChoice | None:
            return worth_keeping(problem, now, alive, fixed, held, room, slack or 0.0)

        constants = _LEAST, _MOST, _FOLLOWED, _FURTHER
        rules = Rules(score.cost, score.size, score.wait, *constants)
        return problem.native.evicting(limit, rules, choice, looks, look)
    walk = _Walk(WalkState(problem, Guide(problem, choice)), limit, score, slack or 0.0, looks)
    for number in range(len(problem.tasks.tasks)):
        if not walk.run(number):
            return None
    return walk.sequence


def worth_keeping(
    problem: Recomputation,
    now: int,
    alive: Collection[int],
    fixed: Collection[int],
    held: int,
    room: int,
    slack: float,
) -> StageChoice | None:
    """Returns the choice of which live tensors are worth keeping; None where none fits.

    Args:
        problem: the step.
        now: the task that comes next.
        alive: tensors.
        fixed: those of them that may not be dropped.
        held: bytes of these.
        room: bytes that there are beside them.
        slack: the part of the room that is left free, if it can be.
    """
    stage = StageProgram(problem, now, alive, fixed)
    return stage.within(held + (1 - slack) * room) or stage.within(held + room)
