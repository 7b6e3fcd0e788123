"""The state of a walk through a step: live tensors, their readers, and recomputation costs.

These are questions only; `eviction.py` says what follows from the answers.

`passes/native/walk_state.h` does the same in C++, and changes with it.
"""

import math
from dataclasses import dataclass, field
from itertools import accumulate

from odtc.passes.checkpoint.plans.guide import Guide
from odtc.passes.checkpoint.problem import Recomputation


@dataclass
class WalkState:
    """The state of a walk: tasks that have run, tensors that are alive.

    Attributes:
        problem: the step.
        guide: which tensors are to stay, also to make others again from.
        now: the first task that has not run.
        used: bytes that are alive.
        alive: tensors.
        stored: tensors that can be fetched.
    """

    problem: Recomputation
    guide: Guide
    now: int = 0
    used: int = 0
    alive: set[int] = field(default_factory=set)
    stored: set[int] = field(default_factory=set)

    def __post_init__(self):
        problem = self.problem
        self.makers, self.sizes = problem.tasks.makers, problem.tasks.sizes
        # How many of the tasks that read a tensor have run first.
        self._read = [0] * len(self.sizes)
        self._clock = [0.0, *accumulate(problem.seconds)]

    def goes_on(self) -> None:
        """Notes that the next task has run."""
        for tensor in self.problem.reads[self.now]:
            self._read[tensor] += 1
        self.now += 1

    def add(self, tensor: int) -> None:
        """Notes that a tensor was made."""
        self.alive.add(tensor)
        self.used += self.sizes[tensor]

    def drop(self, tensor: int) -> None:
        """Notes that a tensor was dropped."""
        self.alive.remove(tensor)
        self.used -= self.sizes[tensor]

    def wait(self, use: int) -> float:
        """Seconds until a task runs first, if nothing runs again before it."""
        return self._clock[use] - self._clock[self.now]

    def next_use(self, tensor: int) -> int | None:
        """The next task that reads a tensor, if one does."""
        uses, done = self.problem.uses[tensor], self._read[tensor]
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
        """Seconds to compute a tensor again before a task, with its operands missing by then.

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
        """Tensors that are read after a task that changes what they are made from."""
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
