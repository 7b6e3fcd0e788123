"""The recomputation problem: a step of tasks in order, some of which may run again.

A plan is a sequence of tasks that has each of them, in their order, and between them tasks that run
once more: what they make is made anew, and the earlier copy is free after its last reader. The
form is that of Checkmate (Jain et al., MLSys 2020) and of MOCCASIN (Bartan et al., ICML 2023).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from odtc.passes.checkpoint.program import StageConstraints
from odtc.passes.memory.operator_order import Task, Tasks
from odtc.passes.native.planner import Planner, StepTables, planner_of


@dataclass(frozen=True)
class Storage:
    """Storage for tensors that the arena has no room for. Times are in the unit of a problem's.

    Attributes:
        call: overhead of a copy.
        store: of writing a byte.
        fetch: of reading a byte.
    """

    call: float
    store: float
    fetch: float


@dataclass(frozen=True)
class Recomputation:
    """A step whose tasks may run again.

    With a storage there are more tasks, which a plan may have: after those of the step one for
    each tensor that stores it, then one for each that fetches it.

    Attributes:
        tasks: in the order in which they run first.
        seconds: that each takes, or anything in proportion to it.
        until: for each tensor the number of the first task that changes what its maker reads for
            it: from there on the maker would make another one. 0 where it is never made again.
        turn: the first task of the backward pass.
        storage: that tensors may be copied to; None where there is none.
        measured: number of tasks whose seconds were measured; the others' are by a model.
    """

    tasks: Tasks
    seconds: tuple[float, ...]
    until: tuple[int, ...]
    turn: int = 0
    storage: Storage | None = None
    measured: int = 0

    @property
    def measured_part(self) -> str:
        """Clause for a message that says how many seconds were measured; '' where none were."""
        count = len(self.tasks.tasks)
        return f"; {self.measured} of {count} calls have measured times" if self.measured else ""

    def store_of(self, tensor: int) -> int:
        """The task that stores a tensor."""
        return len(self.tasks.tasks) + tensor

    def fetch_of(self, tensor: int) -> int:
        """The task that fetches a tensor from the storage."""
        return len(self.tasks.tasks) + len(self.tasks.sizes) + tensor

    def is_copy(self, number: int) -> bool:
        """Whether a task stores or fetches."""
        return number >= len(self.tasks.tasks)

    def moved(self, number: int) -> int:
        """The tensor that a task stores or fetches."""
        return (number - len(self.tasks.tasks)) % len(self.tasks.sizes)

    def is_fetch(self, number: int) -> bool:
        """Whether a task fetches."""
        return number >= self.fetch_of(0)

    @cached_property
    def every(self) -> list[Task]:
        """The tasks, and those that store and fetch."""
        if self.storage is None:
            return list(self.tasks.tasks)
        tensors = range(len(self.tasks.sizes))
        stores = [Task((), frozenset([tensor])) for tensor in tensors]
        return [*self.tasks.tasks, *stores, *(Task((tensor,), frozenset()) for tensor in tensors)]

    @cached_property
    def times(self) -> list[float]:
        """Seconds of each of them."""
        storage, sizes = self.storage, self.tasks.sizes
        if storage is None:
            return list(self.seconds)
        stores = [storage.call + storage.store * size for size in sizes]
        return [*self.seconds, *stores, *(storage.call + storage.fetch * size for size in sizes)]

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
        """For each task the tensors that it reads, in the order of their makers."""
        makers = self.tasks.makers
        return [sorted(task.reads, key=makers.__getitem__) for task in self.tasks.tasks]

    @cached_property
    def last_run(self) -> list[int]:
        """For each task the first one after which it may not run again.

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
        """For each tensor the first task after which it cannot be made again, by any chain."""
        found = [0] * len(self.tasks.sizes)
        for number, task in enumerate(self.tasks.tasks):
            chain = min([self.last_run[number], *(found[each] for each in task.reads)])
            for made in task.allocates:
                found[made] = min(chain, self.until[made])
        return found

    @cached_property
    def made_before(self) -> list[list[int]]:
        """For each task the tensors of earlier ones that cannot be made again after it."""
        found: list[list[int]] = [[] for _ in self.tasks.tasks]
        for tensor, last in enumerate(self.last_made):
            if self.tasks.makers[tensor] < last < len(found):
                found[last].append(tensor)
        return found

    @cached_property
    def program(self) -> StageConstraints:
        """The linear program of its stages; see `stage_program.py`."""
        return StageConstraints(
            self.tasks, self.uses, self.until, has_storage=self.storage is not None
        )

    @property
    def tables(self) -> StepTables:
        """The step as the planner in C++ reads it."""
        return StepTables(
            tasks=self.tasks,
            has_storage=self.storage is not None,
            until=self.until,
            times=self.times,
            last_made=self.last_made,
            last_run=self.last_run,
            reads=self.reads,
            uses=self.uses,
            made_before=self.made_before,
        )

    @cached_property
    def native(self) -> Planner | None:
        """The planner in C++ that runs the inner loops, where there is a compiler."""
        return planner_of(self.tables)

    @cached_property
    def largest(self) -> int:
        """The most bytes that a task reads and writes: no plan has a lower peak."""
        sizes = self.tasks.sizes
        each = (task.reads | set(task.allocates) for task in self.tasks.tasks)
        return max((sum(sizes[tensor] for tensor in held) for held in each), default=0)

    @cached_property
    def grown(self) -> list[int]:
        """Bytes that each task allocates."""
        sizes = self.tasks.sizes
        return [sum(sizes[made] for made in task.allocates) for task in self.every]


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
    """The task during which most bytes are alive; that which made it, where a tensor is fetched."""
    alive = alive_during(problem, plan.sequence)
    number = plan.sequence[alive.index(max(alive))]
    return problem.tasks.makers[problem.moved(number)] if problem.is_copy(number) else number


def plan_of(problem: Recomputation, sequence: Sequence[int]) -> Plan:
    """A sequence with its peak and its time; it has to be a possible one."""
    seconds = sum(problem.times[number] for number in sequence)
    native = problem.native
    peak = native.peak(sequence) if native else max(alive_during(problem, sequence), default=0)
    return Plan(tuple(sequence), peak, seconds)


def alive_during(problem: Recomputation, sequence: Sequence[int]) -> list[int]:
    """Bytes that are alive during each task of a sequence."""
    tasks, sizes = problem.every, problem.tasks.sizes
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
