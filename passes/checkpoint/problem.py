"""What there is to decide: a step of tasks in order, some of which may run again.

A plan is a sequence of tasks that has each of them, in their order, and between them tasks that run
once more: what they make is made anew, and the earlier copy is free after its last reader. The
form is that of Checkmate (Jain et al., MLSys 2020) and of MOCCASIN (Bartan et al., ICML 2023).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from odtc.passes.memory.operator_order import Tasks


@dataclass(frozen=True)
class Recomputation:
    """A step whose tasks may run again.

    Attributes:
        tasks: in the order in which they run first.
        seconds: that each takes, or anything in proportion to it.
        until: for each tensor the number of the first task that changes what its maker reads for
            it: from there on the maker would make another one. 0 where it is never made again.
        turn: the first task of the backward pass.
    """

    tasks: Tasks
    seconds: Sequence[float]
    until: Sequence[int]
    turn: int = 0

    @cached_property
    def uses(self) -> list[list[int]]:
        """For each tensor the tasks that read it, in order; the number of all where it is kept."""
        found: list[list[int]] = [[] for _ in self.tasks.sizes]
        for number, task in enumerate(self.tasks.tasks):
            for tensor in task.reads:
                found[tensor].append(number)
        for tensor in self.tasks.kept:
            found[tensor].append(len(self.tasks.tasks))
        return found

    @cached_property
    def reads(self) -> list[list[int]]:
        """For each task the tensors that it reads, in the order of what makes them."""
        makers = self.tasks.makers
        return [sorted(task.reads, key=makers.__getitem__) for task in self.tasks.tasks]

    @cached_property
    def last_run(self) -> list[int]:
        """For each task the first one behind which it may not run again.

        It makes all of its results again, those that are kept for later too.
        """
        ends = []
        for task in self.tasks.tasks:
            changed = [
                self.until[made]
                for made in task.allocates
                if self.uses[made] and self.uses[made][-1] > self.until[made]
            ]
            ends.append(min(changed, default=len(self.tasks.tasks)))
        return ends

    @cached_property
    def last_made(self) -> list[int]:
        """For each tensor the first task behind which it cannot be made again, by any chain."""
        found = [0] * len(self.tasks.sizes)
        for number, task in enumerate(self.tasks.tasks):
            chain = min([self.last_run[number], *(found[each] for each in task.reads)])
            for made in task.allocates:
                found[made] = min(chain, self.until[made])
        return found

    @cached_property
    def grown(self) -> list[int]:
        """Bytes that each task allocates."""
        return [self.tasks.grown(number) for number in range(len(self.tasks.tasks))]


@dataclass(frozen=True)
class Plan:
    """A sequence of tasks.

    Attributes:
        sequence: numbers of tasks.
        peak: most bytes that are alive at one time.
        seconds: of all of them.
    """

    sequence: tuple[int, ...]
    peak: int
    seconds: float


def highest_of(problem: Recomputation, plan: Plan) -> int:
    """The task during which most bytes are alive."""
    alive = _alive(problem, plan.sequence)
    return plan.sequence[alive.index(max(alive))]


def plan_of(problem: Recomputation, sequence: Sequence[int]) -> Plan:
    """A sequence with its peak and its time; it has to be a possible one."""
    seconds = sum(problem.seconds[number] for number in sequence)
    return Plan(tuple(sequence), max(_alive(problem, sequence), default=0), seconds)


def _alive(problem: Recomputation, sequence: Sequence[int]) -> list[int]:
    """Bytes that are alive during each task of a sequence."""
    tasks, sizes = problem.tasks.tasks, problem.tasks.sizes
    needed, freed = set(problem.tasks.kept), [0] * len(sequence)
    for place in reversed(range(len(sequence))):
        task = tasks[sequence[place]]
        freed[place] = sum(sizes[tensor] for tensor in task.allocates if tensor not in needed)
        needed.difference_update(task.allocates)
        freed[place] += sum(sizes[tensor] for tensor in task.reads if tensor not in needed)
        needed.update(task.reads)
    alive, during = 0, []
    for number, free in zip(sequence, freed, strict=True):
        alive += problem.grown[number]
        during.append(alive)
        alive -= free
    return during
