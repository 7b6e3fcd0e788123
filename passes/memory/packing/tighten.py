"""Lowers a plan by many short searches, each different from the others.

A search that takes a wrong turn early hardly ever comes back from it, and one that takes none is
done after a node per block. So each is given few nodes. One looks for a plan at the bound: its
order is by what makes blocks hard to place, with noise, and every other time it prefers the
sections that failed so far (weighted degrees: Boussemart, Hemery, Lecoutre and Sais, "Boosting
Systematic Search by Weighting Constraints", ECAI 2004). The next looks for one a little below the
best plan: its order is that of the plan, with noise, so that most of it comes back. As the nodes of
a search grow, small problems are solved to the end.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, cycle
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from odtc.passes.memory.packing.blocks import Blocks, Ints
from odtc.passes.memory.packing.budget import Budget
from odtc.passes.memory.packing.orders import order_of
from odtc.passes.memory.packing.search import searched

_ORDERS = (
    ("length", "area", "load"),
    ("load", "area", "length"),
    ("load", "length", "area"),
    ("area", "size"),
    ("size", "length"),
)
# Perturbation of ranks: their standard deviation as a share of all ranks, by rounds of orders; and
# as a share of the height, where the best plan gives the ranks.
_SPREADS = (0.0, 0.1, 0.2, 0.05, 0.5)
_PLAN_SPREADS = (0.03, 0.1, 0.3)
# Where the next height to be tried lies between the bound, 0, and the best plan, 1.
_HEIGHTS = (0.9, 0.7, 1.0, 0.5)
# Nodes of the first search: some, and more for each block; and how they grow.
_NODES, _NODES_PER_BLOCK, _GROWTH = 500, 4, 1.03
# Part of the failure counts that is carried over to the next search.
_MEMORY = 0.5


class _Way(NamedTuple):
    """Parameters of a search: the blocks' ranks, the height, and whether failures count."""

    rank: NDArray[np.float64]
    height: int
    learn: bool


@dataclass
class _Best:
    """The best plan so far, in units, with the lower bounds of plans and of searches."""

    blocks: Blocks
    offsets: Ints
    bound: int
    enough: int

    @property
    def high(self) -> int:
        """The height of the plan."""
        return int((self.offsets + self.blocks.size).max())

    @property
    def low(self) -> int:
        """The lowest height that is worth a search."""
        return max(self.bound, self.enough)


def tighten(
    blocks: Blocks, offsets: Ints, bound: int, enough: int, budget: Budget
) -> tuple[Ints, int]:
    """Looks for lower plans until one is low enough, or the budget is spent.

    Args:
        blocks: blocks that meet directly or through others.
        offsets: a plan of them, in units.
        bound: no plan is lower.
        enough: plans lower than this are not looked for.
        budget: of the searches.

    Returns:
        The lowest plan, and a bound that may be higher.
    """
    best = _Best(blocks, offsets, bound, enough)
    failures = np.zeros(blocks.sections)
    nodes = float(_NODES + _NODES_PER_BLOCK * len(blocks))
    for way in _ways(best):
        if best.high <= best.low or not budget.left():
            break
        weight = failures if way.learn else np.zeros_like(failures)
        found = searched(
            blocks,
            way.rank,
            way.height,
            weight,
            learn=way.learn,
            nodes=int(nodes),
            budget=budget,
        )
        if found.offsets is not None:
            best.offsets = found.offsets
        elif found.lower_bound is not None:
            best.bound = found.lower_bound
        failures *= _MEMORY if way.learn else 1
        nodes *= _GROWTH
    return best.offsets, best.bound


def _ways(best: _Best) -> Iterator[_Way]:
    """Searches for a plan at the bound, in turn with such for one that is a little lower."""
    noise = random.Random(0)  # noqa: S311
    heights, spreads = cycle(_HEIGHTS), cycle(_PLAN_SPREADS)
    learn = True
    for ranks in _ranks(best.blocks, noise):
        yield _Way(ranks, best.low, learn)
        spread = next(spreads) * best.high
        nearby = [offset + spread * noise.gauss() for offset in best.offsets.tolist()]
        height = best.low + int((best.high - 1 - best.low) * next(heights))
        yield _Way(np.array(nearby), height, learn=False)
        learn = not learn


def _ranks(blocks: Blocks, noise: random.Random) -> Iterator[NDArray[np.float64]]:
    """A rank for each block, by one order after the other, again and again."""
    orders = [order_of(blocks, names) for names in _ORDERS]
    for spread in chain(_SPREADS, cycle(_SPREADS[1:])):
        for order in orders:
            rank = np.empty(len(blocks))
            scale = spread * len(blocks)
            rank[order] = [place + scale * noise.gauss() for place in range(len(blocks))]
            yield rank
