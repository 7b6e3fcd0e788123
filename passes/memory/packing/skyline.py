"""A partial plan, seen from above: blocks are stacked on what is below, the lowest first.

In some lowest plan every block lies on another one or at 0, and none could be moved down to where
there is room. Only such plans are built (the canonical solutions of MiniMalloc, see `blocks`). Each
section has a floor, below which nothing more comes, and each open block the lowest offset at which
it may still start. Where the floors of some sections form a valley, a block that starts at its
bottom lies all within it. So either one of these covers a given section of the valley at that
height, or none does, and what is there stays free: the branches of the search. No plan is in two.

`passes/native/skyline.h` does the same in C++, and changes with it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odtc.passes.memory.packing.blocks import Blocks, Ints

# A branch in which no block is placed.
NOTHING = -1


@dataclass(frozen=True)
class PackingRegion:
    """Blocks that meet directly or through others, with what about them does not change.

    Attributes:
        rows: of the blocks in the whole problem.
        first: number of the first section in the whole problem.
        blocks: the blocks.
        rank: of each block: lower ones are tried first.
        away: 0 where a block is alive in a section, else `far`; blocks by sections.
        meets: whether two blocks are alive at one time; blocks by blocks.
        far: above all offsets: the lowest offset of a block that has a place.
    """

    rows: Ints
    first: int
    blocks: Blocks
    rank: NDArray[np.float64]
    away: NDArray[Any]
    meets: NDArray[np.bool_]
    far: int

    @property
    def cost(self) -> int:
        """Steps to look at it once."""
        return 45 + self.away.size // 2000

    def part(self, rows: Ints) -> "PackingRegion":
        """Some of its blocks, with their sections."""
        blocks = self.blocks.take(rows)
        begin = int(self.blocks.lower[rows].min())
        return PackingRegion(
            self.rows[rows],
            self.first + begin,
            blocks,
            self.rank[rows],
            np.ascontiguousarray(self.away[rows, begin : begin + blocks.sections]),
            self.meets[np.ix_(rows, rows)],
            self.far,
        )


@dataclass(frozen=True)
class PackingState:
    """The part of a region that the placed blocks leave free.

    Attributes:
        region: the blocks.
        start: the lowest offset of each open block, `far` for those that have a place.
        floor: of each section.
        slack: of each section: units that may stay free in it if the plan is to be low enough.
    """

    region: PackingRegion
    start: NDArray[Any]
    floor: NDArray[Any]
    slack: NDArray[Any]


@dataclass(frozen=True)
class Branching:
    """The branches of a search in a section.

    Attributes:
        bottom: the offset at which blocks would be placed.
        branches: rows of the region to be tried there, or NOTHING; the last one first.
        lifted: the lowest offsets of all blocks after NOTHING.
        missing: with so much more slack there would be the branch NOTHING; None if not even then.
    """

    bottom: int
    branches: list[int]
    lifted: NDArray[Any]
    missing: int | None


def region_of(blocks: Blocks, rank: NDArray[np.float64]) -> PackingRegion:
    """All blocks as one region."""
    small = int(blocks.size.sum() + blocks.alignment.sum()) < 2**28
    dtype, far = (np.int32, 2**29) if small else (np.int64, 2**60)
    section = np.arange(blocks.sections)
    lower, upper = blocks.lower[:, None], blocks.upper[:, None]
    away = np.where((lower <= section) & (section < upper), 0, far).astype(dtype)
    meets = (lower < blocks.upper) & (blocks.lower < upper)
    np.fill_diagonal(meets, False)
    return PackingRegion(np.arange(len(blocks)), 0, blocks, rank, away, meets, far)


def empty_state(region: PackingRegion, height: int) -> PackingState:
    """The state in which no block has a place, for a plan of that height."""
    dtype = region.away.dtype
    load = region.blocks.load()
    zeros = np.zeros(len(load), dtype)
    return PackingState(
        region, np.zeros(len(region.rows), dtype), zeros, (height - load).astype(dtype)
    )


def raised(state: PackingState) -> PackingState:
    """The same with each floor at the lowest offset of an open block; what is below stays free.

    Where the slack of a section is below zero, there is no low enough plan.
    """
    lowest = (state.region.away + state.start[:, None]).min(axis=0)
    lowest = np.where(lowest < state.region.far, lowest, state.floor)
    return PackingState(state.region, state.start, lowest, state.slack - (lowest - state.floor))


def choose(state: PackingState, weight: NDArray[np.float64]) -> Branching:
    """Takes the section with the fewest branches; one that often failed may have more.

    Args:
        state: a state that is `raised`, with an open block.
        weight: how often each section of the whole problem failed.
    """
    region, blocks = state.region, state.region.blocks
    below = np.zeros(blocks.sections + 1, np.int64)
    np.cumsum(state.floor, out=below[1:])
    length = blocks.upper - blocks.lower
    level = below[blocks.upper] - below[blocks.lower] == state.start * length
    lying = np.flatnonzero(level & (state.start < region.far))
    count = np.bincount(blocks.lower[lying], minlength=blocks.sections + 1)
    count -= np.bincount(blocks.upper[lying], minlength=blocks.sections + 1)
    branches = 2 * count.cumsum()[:-1] + (state.slack > 0)
    # Of sections alike in this, the one into which the most has still to go.
    used = (state.floor + state.slack) / (1 + int(state.floor.max()) + int(state.slack.max()))
    open_sections = _valleys(state.floor, _covered(state))
    failed = weight[region.first : region.first + blocks.sections]
    score = np.where(open_sections, (branches + used) / (1 + failed), np.inf)
    section = int(score.argmin())
    there = lying[(blocks.lower[lying] <= section) & (section < blocks.upper[lying])]
    return _branches(state, section, there)


def _covered(state: PackingState) -> NDArray[np.bool_]:
    """Sections in which an open block is alive."""
    blocks, still = state.region.blocks, state.start < state.region.far
    count = np.bincount(blocks.lower[still], minlength=blocks.sections + 1)
    count -= np.bincount(blocks.upper[still], minlength=blocks.sections + 1)
    return count.cumsum()[:-1] > 0


def _valleys(floor: NDArray[Any], covered: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Runs of sections of equal floor between higher ones; those without an open block are high."""
    wall = np.iinfo(floor.dtype).max
    heights = np.where(covered, floor, wall)
    begin = np.concatenate([[0], np.flatnonzero(heights[1:] != heights[:-1]) + 1])
    run = np.concatenate([[wall], heights[begin], [wall]])
    lower = (run[1:-1] < run[:-2]) & (run[1:-1] < run[2:])
    return np.repeat(lower, np.diff(np.append(begin, len(floor)))) & covered


def _branches(state: PackingState, section: int, there: Ints) -> Branching:
    """The branches of a section in which those blocks lie on the floor."""
    region, blocks = state.region, state.region.blocks
    bottom = int(state.floor[section])
    there = there[np.argsort(region.rank[there], kind="stable")]
    branches = _unlike(blocks, there)[::-1]
    meeting = region.meets[there]
    start = np.where(meeting, state.start, region.far).min(axis=1)
    if (start >= bottom + blocks.size[there]).any():
        # One of them could be moved down to here in every plan of that branch.
        return Branching(bottom, branches, state.start, None)
    end = np.where(meeting, state.start + blocks.size, 2 * region.far).min(axis=1)
    lifted = state.start.copy()
    lifted[there] = end
    lowest = int((region.away[:, section] + lifted).min())
    missing = lowest - bottom - int(state.slack[section])
    if missing > 0:
        return Branching(bottom, branches, lifted, missing)
    return Branching(bottom, [NOTHING, *branches], lifted, None)


def _unlike(blocks: Blocks, rows: Ints) -> list[int]:
    """Rows in their order, without those that are like an earlier one."""
    found: dict[tuple[int, ...], int] = {}
    columns = (blocks.lower, blocks.upper, blocks.size, blocks.alignment)
    for row, *like in zip(rows.tolist(), *(c[rows].tolist() for c in columns), strict=True):
        found.setdefault(tuple(like), row)
    return list(found.values())


def followed(state: PackingState, choice: Branching, branch: int) -> PackingState:
    """The state after a branch of a choice."""
    region, blocks = state.region, state.region.blocks
    if branch == NOTHING:
        return PackingState(region, choice.lifted, state.floor, state.slack)
    top = choice.bottom + int(blocks.size[branch])
    meets = region.meets[branch]
    start = np.where(meets, np.maximum(state.start, _aligned(top, blocks)), state.start)
    start[branch] = region.far
    floor = state.floor.copy()
    floor[blocks.lower[branch] : blocks.upper[branch]] = top
    return PackingState(region, start.astype(state.start.dtype, copy=False), floor, state.slack)


def _aligned(offset: int, blocks: Blocks) -> Any:
    """An offset, rounded up for each block."""
    if blocks.alignment.max() == 1:
        return offset
    return -(-offset // blocks.alignment) * blocks.alignment


def split(state: PackingState) -> list[PackingState]:
    """The open blocks as states that have nothing to do with each other, the tightest first.

    A state in one piece comes back as it is, until most of its blocks have a place.
    """
    region = state.region
    still = np.flatnonzero(state.start < region.far)
    if not len(still):
        return []
    pieces = [still[rows] for rows in region.blocks.take(still).parts()]
    if len(pieces) == 1 and 2 * len(still) > len(region.rows):
        return [state]
    states = [_piece(state, rows) for rows in pieces]
    return sorted(states, key=lambda piece: int(piece.slack.sum()))


def _piece(state: PackingState, rows: Ints) -> PackingState:
    region = state.region.part(rows)
    begin = region.first - state.region.first
    sections = slice(begin, begin + region.blocks.sections)
    return PackingState(region, state.start[rows], state.floor[sections], state.slack[sections])
