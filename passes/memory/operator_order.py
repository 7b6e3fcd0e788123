"""The order of a step's tasks in which fewest bytes are alive at one time.

A task allocates its results when it begins; a tensor is free once its last reader has ended.
Orders are searched for a limit of bytes: a task that can run within it and leaves no more alive
than before may always run at once, so only the choice among tasks that add bytes is searched, level
by level. If no level had to be cut short, failing proves that there is no such order. The limit is
bisected between a bound and the best order so far.

Known limit: a level keeps so many states that the whole takes about a second; then a lower order
may be missed, which the gap to the bound shows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd
from typing import NamedTuple

import numpy as np

# Of all levels of one search together; a state costs some tens of microseconds.
_STATES = 12_000
# Limits that are tried, at most.
_ROUNDS = 8


@dataclass(frozen=True)
class Task:
    """A call.

    Attributes:
        allocates: numbers of the tensors that it makes.
        reads: numbers of the tensors that it reads.
        after: numbers of other tasks that have to run before it; those that make what it reads are
            among them without being named.
    """

    allocates: tuple[int, ...]
    reads: frozenset[int]
    after: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Tasks:
    """Tasks that have to be put in order.

    Attributes:
        tasks: in an order that is possible.
        sizes: bytes of each tensor.
        kept: tensors that stay alive until the end.

    Raises:
        ValueError: a task is in front of one that it needs.
    """

    tasks: tuple[Task, ...]
    sizes: tuple[int, ...]
    kept: frozenset[int] = frozenset()

    def __post_init__(self):
        for number, before in enumerate(self.before):
            if before >> number:
                raise ValueError(f"task {number} is in front of one that it needs")

    @cached_property
    def makers(self) -> dict[int, int]:
        """The task that makes each tensor."""
        return {made: number for number, task in enumerate(self.tasks) for made in task.allocates}

    @cached_property
    def before(self) -> list[int]:
        """For each task those that it needs, as bits."""
        return [
            _bits(task.after | {self.makers[tensor] for tensor in task.reads})
            for task in self.tasks
        ]

    @cached_property
    def behind(self) -> list[list[int]]:
        """For each task those that need it."""
        found: list[list[int]] = [[] for _ in self.tasks]
        for number, before in enumerate(self.before):
            for needed in _numbers(before):
                found[needed].append(number)
        return found

    @cached_property
    def readers(self) -> list[int]:
        """For each tensor its readers and its maker, as bits; one more where it is kept."""
        end = 1 << len(self.tasks)
        found = [end if tensor in self.kept else 0 for tensor in range(len(self.sizes))]
        for number, task in enumerate(self.tasks):
            for tensor in (*task.reads, *task.allocates):
                found[tensor] |= 1 << number
        return found

    @cached_property
    def grown(self) -> list[int]:
        """Bytes that each task allocates."""
        return [sum(self.sizes[tensor] for tensor in task.allocates) for task in self.tasks]

    @cached_property
    def held(self) -> list[list[tuple[int, int]]]:
        """For each task the tensors with bytes that it makes or reads: bytes, and `readers`."""
        return [
            [
                (self.sizes[tensor], self.readers[tensor])
                for tensor in (*task.reads, *task.allocates)
                if self.sizes[tensor]
            ]
            for task in self.tasks
        ]

    def freed(self, number: int, done: int) -> int:
        """Bytes that are free once a task and all of `done`, it among them, have run."""
        left, free = ~done, 0
        for size, readers in self.held[number]:
            if not readers & left:
                free += size
        return free


def in_arena(tasks: Tasks) -> Tasks:
    """The same tasks, with no bytes for tensors that are kept: results have their own storage."""
    sizes = [0 if tensor in tasks.kept else size for tensor, size in enumerate(tasks.sizes)]
    return replace(tasks, sizes=tuple(sizes))


@dataclass(frozen=True)
class TaskOrder:
    """An order of tasks.

    Attributes:
        order: numbers of the tasks.
        peak: most bytes that are alive at one time.
        lower_bound: no order has a lower peak.
    """

    order: tuple[int, ...]
    peak: int
    lower_bound: int


def lowest_order(tasks: Tasks) -> TaskOrder:
    """An order of a low peak; the given one where no lower one is found."""
    order = tuple(range(len(tasks.tasks)))
    best, bound = peak_of(tasks, order), lower_bound(tasks)
    # All peaks are multiples of it: limits between two multiples are equivalent.
    unit = gcd(*tasks.sizes) or 1
    # Most steps have an order at the bound, which is the first limit.
    limit = lowest = bound
    for _ in range(_ROUNDS):
        if lowest >= best:
            break
        found, is_complete = _within(tasks, limit)
        if found:
            order, best = found, peak_of(tasks, found)
        else:
            # A search that was cut short proves nothing, but is not tried again.
            lowest = limit + unit
            bound = lowest if is_complete else bound
        limit = (lowest + best) // 2 // unit * unit
    return TaskOrder(order, best, bound)


def peak_of(tasks: Tasks, order: Sequence[int]) -> int:
    """The most bytes that are alive at one time."""
    alive = peak = done = 0
    for number in order:
        alive += tasks.grown[number]
        peak = max(peak, alive)
        done |= 1 << number
        alive -= tasks.freed(number, done)
    return peak


def lower_bound(tasks: Tasks) -> int:
    """The most bytes that are alive while some task runs, whatever the order.

    A tensor is alive at a task if its maker runs before, and one of its readers after.
    """
    count = len(tasks.tasks)
    before, behind = [0] * count, [0] * count
    for number, needed in enumerate(tasks.before):
        before[number] = 1 << number
        for other in _numbers(needed):
            before[number] |= before[other]
    for number in reversed(range(count)):
        behind[number] = 1 << number
        for other in tasks.behind[number]:
            behind[number] |= behind[other]
    load = np.zeros(count, np.int64)
    for tensor, maker in tasks.makers.items():
        alive = behind[maker]
        if tensor not in tasks.kept:
            until = 0
            for reader in _numbers(tasks.readers[tensor]):
                until |= before[reader]
            alive &= until
        data = np.frombuffer(alive.to_bytes(-(-count // 8), "little"), np.uint8)
        load[np.unpackbits(data, count=count, bitorder="little").astype(bool)] += tasks.sizes[
            tensor
        ]
    return int(load.max(initial=0))


class _State(NamedTuple):
    """A state of a search.

    Attributes:
        done: tasks that have run, as bits.
        alive: bytes after them.
        ready: tasks that can run now, as bits.
        willing: those of them that leave no more alive than before, as bits.
        parent: the state before the last task.
        ran: the last task.
    """

    done: int
    alive: int
    ready: int
    willing: int
    parent: "_State | None" = None
    ran: int = -1


def _within(tasks: Tasks, limit: int) -> tuple[tuple[int, ...] | None, bool]:
    """An order whose peak is at most `limit`, and whether none was left out of the search."""
    count, is_complete = len(tasks.tasks), True
    width = max(4, _STATES // max(1, count))
    level = {0: _settled(tasks, _start(tasks), limit)}
    while level:
        for state in level.values():
            if not state.ready:
                return _path(state), True
        found: dict[int, _State] = {}
        # What follows from a state depends on nothing but what has run.
        reached: set[int] = set()
        for state in level.values():
            for number in _numbers(state.ready):
                done = state.done | 1 << number
                if done not in reached and state.alive + tasks.grown[number] <= limit:
                    reached.add(done)
                    then = _settled(tasks, _after(tasks, state, number), limit)
                    found.setdefault(then.done, then)
        # What has come farther has the same bytes for more work.
        kept = sorted(found.values(), key=lambda each: (each.alive, -each.done.bit_count()))
        is_complete &= len(kept) <= width
        level = {state.done: state for state in kept[:width]}
    return None, is_complete


def _start(tasks: Tasks) -> _State:
    """The state before any task."""
    first = [number for number, before in enumerate(tasks.before) if not before]
    willing = _bits(frozenset(number for number in first if _is_willing(tasks, number, 0)))
    return _State(0, 0, _bits(frozenset(first)), willing)


def _settled(tasks: Tasks, state: _State, limit: int) -> _State:
    """A state after all tasks that can run now and leave no more alive than before."""
    while (number := _first_within(tasks, state.willing, limit - state.alive)) is not None:
        state = _after(tasks, state, number)
    return state


def _first_within(tasks: Tasks, willing: int, room: int) -> int | None:
    """The first of some tasks that allocates no more bytes than there are."""
    while willing:
        lowest = willing & -willing
        number = lowest.bit_length() - 1
        if tasks.grown[number] <= room:
            return number
        willing ^= lowest
    return None


def _after(tasks: Tasks, state: _State, number: int) -> _State:
    """The state after one more task.

    What a task frees never becomes less while it waits, and more only if it is left as the last
    that needs a tensor: only these, and those that can run now for the first time, are looked at.
    """
    done = state.done | 1 << number
    fresh = 0
    for each in tasks.behind[number]:
        if not tasks.before[each] & ~done:
            fresh |= 1 << each
    ready = (state.ready | fresh) ^ 1 << number
    willing, changed, left = state.willing & ~(1 << number), fresh, ~done
    for _, readers in tasks.held[number]:
        last = readers & left
        if not last & (last - 1):
            changed |= last
    for each in _numbers(ready & changed & ~willing):
        if _is_willing(tasks, each, done):
            willing |= 1 << each
    alive = state.alive + tasks.grown[number] - tasks.freed(number, done)
    return _State(done, alive, ready, willing, state, number)


def _is_willing(tasks: Tasks, number: int, done: int) -> bool:
    """Whether a task would leave no more alive than before."""
    return tasks.grown[number] <= tasks.freed(number, done | 1 << number)


def _path(state: _State | None) -> tuple[int, ...]:
    ran = []
    while state is not None and state.parent is not None:
        ran.append(state.ran)
        state = state.parent
    return tuple(reversed(ran))


def _bits(numbers: frozenset[int]) -> int:
    return sum(1 << number for number in numbers)


def _numbers(bits: int) -> list[int]:
    """Numbers of the bits that are set."""
    found = []
    while bits:
        lowest = bits & -bits
        found.append(lowest.bit_length() - 1)
        bits ^= lowest
    return found
