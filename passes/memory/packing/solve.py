"""Solves a packing problem: quick orders first, then searches, part by part."""

from collections.abc import Sequence

import numpy as np

from odtc.passes.memory.packing.blocks import Blocks, Ints, blocks_of
from odtc.passes.memory.packing.budget import Budget, Limit
from odtc.passes.memory.packing.families import BufferFamily, families_of
from odtc.passes.memory.packing.greedy import place
from odtc.passes.memory.packing.problem import PackingProblem, PackingSolution
from odtc.passes.memory.packing.tighten import tighten

# Above it, blocks times sections, a search takes too long to finish.
_LARGEST_SEARCH = 8_000_000


def solve(problem: PackingProblem, limit: Limit | None = None) -> PackingSolution:
    """Gives every buffer an offset, so that no two that are alive at one time overlap.

    Args:
        problem: the buffers.
        limit: at which to end, with the best plan so far.

    Raises:
        ValueError: a host is unknown or within itself, or a buffer does not fit into its host.
    """
    families = families_of(problem.buffers)
    solid = [family for family in families if family.size]
    offsets = {member: 0 for family in families for member, _ in family.members}
    if not solid:
        return PackingSolution(offsets, 0, 0)
    blocks, unit = blocks_of(solid)
    enough = 0 if problem.capacity is None else problem.capacity // unit
    places, bound = _solve_parts(blocks, enough, Budget(limit or Limit()))
    offsets |= _offsets(solid, places * unit)
    return PackingSolution(offsets, int((places + blocks.size).max()) * unit, bound * unit)


def _solve_parts(blocks: Blocks, enough: int, budget: Budget) -> tuple[Ints, int]:
    """Offsets and a bound, in units.

    The highest part decides, so no other part need be lower than what it is known to need.
    """
    places = np.zeros(len(blocks), np.int64)
    parts = [(rows, blocks.take(rows)) for rows in blocks.parts()]
    bound = max(int(part.load().max()) for _, part in parts)
    for rows, part in parts:
        places[rows] = place(part, max(bound, enough), budget)
    height = places + blocks.size
    parts.sort(key=lambda item: -int(height[item[0]].max()))
    for rows, part in parts:
        if part.sections * len(part) > _LARGEST_SEARCH:
            continue
        found, own = tighten(part, places[rows], int(part.load().max()), max(bound, enough), budget)
        places[rows] = found
        bound = max(bound, own)
    return places, bound


def _offsets(families: Sequence[BufferFamily], starts: Ints) -> dict[str, int]:
    """Offset of each member in bytes."""
    return {
        member: start + at
        for family, start in zip(families, starts.tolist(), strict=True)
        for member, at in family.members
    }
