"""Depth-first search for a plan of a given height, which ends with one or proves that none exists.

What is open falls apart where no open block spans two sections. The pieces are solved one after the
other, and if one cannot be, no other plan of those before it would help: the search goes back to
where it fell apart.

`passes/native/search.h` does the same in C++, and changes with it.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from odtc.passes.memory.packing.blocks import Blocks, Ints
from odtc.passes.memory.packing.budget import STEPS_PER_SECOND, Budget
from odtc.passes.memory.packing.skyline import (
    NOTHING,
    Branching,
    PackingRegion,
    PackingState,
    choose,
    empty_state,
    followed,
    raised,
    region_of,
    split,
)
from odtc.passes.native.library import library
from odtc.passes.native.packer import Ended, Spend, search_blocks

# In C++ a search takes so many times as many steps in a second, at least.
_FASTER = 10


class _Task(NamedTuple):
    """A state to be completed, the frame to go back to if it cannot be, and what comes after it."""

    state: PackingState
    frame: int
    rest: "_Task | None"


class _Frame(NamedTuple):
    """A choice of which branches are left."""

    choice: Branching
    task: _Task


@dataclass(frozen=True)
class SearchOutcome:
    """How a search ended.

    Attributes:
        offsets: the plan in units, if one was found.
        lower_bound: no plan is lower; None where it was not shown that there is none.
    """

    offsets: Ints | None
    lower_bound: int | None


def steps_per_second() -> int:
    """Steps that take less than a second on a core of a present server, as the search is here."""
    return STEPS_PER_SECOND * (1 if library() is None else _FASTER)


def searched(
    blocks: Blocks,
    rank: NDArray[np.float64],
    height: int,
    weight: NDArray[np.float64],
    *,
    learn: bool,
    nodes: int,
    budget: Budget,
) -> SearchOutcome:
    """One search, in C++ where there is a compiler; see `Search` for arguments."""
    functions = library()
    if functions is None:
        return Search(region_of(blocks, rank), height, weight, learn).run(nodes, budget)
    spend = Spend(nodes, budget.steps, budget.seconds())
    found = search_blocks(functions, blocks, rank, height, weight, learn, spend)
    budget.steps = found.steps
    if found.ended is Ended.FOUND:
        return SearchOutcome(found.offsets, None)
    return SearchOutcome(None, found.bound if found.ended is Ended.NONE else None)


class Search:
    """One search, which `native/search.h` does alike.

    Args:
        region: all blocks.
        height: of the plan, in units.
        weight: how often each section failed.
        learn: whether failures are counted on, in `weight` itself.
    """

    def __init__(
        self, region: PackingRegion, height: int, weight: NDArray[np.float64], learn: bool
    ) -> None:
        self._region, self._height, self._weight, self._learn = region, height, weight, learn
        self._offsets = np.zeros(len(region.rows), np.int64)
        self._frames: list[_Frame] = []
        # The least height of which it is not known that there is no plan.
        self._next = np.iinfo(np.int64).max

    def run(self, nodes: int, budget: Budget) -> SearchOutcome:
        """Searches until a plan is found, none is left, or so many nodes have been looked at."""
        task: _Task | None = _Task(empty_state(self._region, self._height), -1, None)
        while task is not None:
            if not nodes or not budget.spend(task.state.region.cost):
                return SearchOutcome(None, None)
            nodes -= 1
            frame = self._look(task)
            while frame >= 0 and not self._frames[frame].choice.branches:
                frame = self._frames[frame].task.frame
            if frame < 0:
                return SearchOutcome(None, self._next)
            del self._frames[frame + 1 :]
            task = self._descend(frame)
        return SearchOutcome(self._offsets, None)

    def _look(self, task: _Task) -> int:
        """Makes a frame of a state, if it may lead to a plan; returns the frame to go on from."""
        state = raised(task.state)
        section = int(state.slack.argmin())
        least = int(state.slack[section])
        if least < 0:
            self._next = min(self._next, self._height - least)
            self._weight[state.region.first + section] += self._learn
            return task.frame
        choice = choose(state, self._weight)
        if choice.missing is not None:
            self._next = min(self._next, self._height + choice.missing)
        self._frames.append(_Frame(choice, _Task(state, task.frame, task.rest)))
        return len(self._frames) - 1

    def _descend(self, frame: int) -> _Task | None:
        """Takes the next branch of a frame; returns the task to do then, or None."""
        choice, task = self._frames[frame]
        branch = choice.branches.pop()
        state = followed(task.state, choice, branch)
        rest = task.rest
        if branch == NOTHING:
            return _Task(state, frame, rest)
        self._offsets[state.region.rows[branch]] = choice.bottom
        for piece in reversed(split(state)):
            rest = _Task(piece, frame, rest)
        return rest
