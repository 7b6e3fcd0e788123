"""Buffers to be packed, as numbers: sizes in whole units, times as sections.

Bytes: every size is rounded up to what divides all alignments, so that what lies between two
aligned buffers belongs to the lower one; then all sizes and offsets are multiples of a unit.

Time: only moments matter at which a set of buffers is alive that is part of no other such set. Two
buffers meet at some time if and only if they meet at one of these. They are called sections, as in
Moffitt, "MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated Machine Learning",
ASPLOS 2023.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from odtc.passes.memory.packing.families import BufferFamily

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Blocks:
    """Blocks to be placed; each array has one element per block.

    Attributes:
        lower: the first section in which it is alive, int64.
        upper: the first section after that in which it is not, int64.
        size: in units, at least 1, int64.
        alignment: in units, int64.
        sections: how many there are.
    """

    lower: Ints
    upper: Ints
    size: Ints
    alignment: Ints
    sections: int

    def __len__(self) -> int:
        return len(self.lower)

    def load(self) -> Ints:
        """Units alive in each section: no plan is lower than any of them."""
        change = np.zeros(self.sections + 1, np.int64)
        np.add.at(change, self.lower, self.size)
        np.subtract.at(change, self.upper, self.size)
        return change.cumsum()[:-1]

    def parts(self) -> Iterator[Ints]:
        """Rows of blocks that meet none of another part, directly or through others."""
        across = np.zeros(self.sections + 1, np.int64)
        np.add.at(across, self.lower + 1, 1)
        np.subtract.at(across, self.upper, 1)
        cuts = np.flatnonzero(across.cumsum()[1:-1] == 0) + 1
        part = np.searchsorted(cuts, self.lower, side="right")
        for number in np.unique(part):
            yield np.flatnonzero(part == number)

    def take(self, rows: Ints) -> "Blocks":
        """Some of the blocks, with the sections that they are alive in."""
        first, last = int(self.lower[rows].min()), int(self.upper[rows].max())
        return Blocks(
            self.lower[rows] - first,
            self.upper[rows] - first,
            self.size[rows],
            self.alignment[rows],
            last - first,
        )


def blocks_of(families: Sequence[BufferFamily]) -> tuple[Blocks, int]:
    """Families of at least one byte as blocks, and the bytes in a unit.

    Args:
        families: at least one.
    """
    common = math.gcd(*(family.alignment for family in families))
    sizes = [-(-family.size // common) * common for family in families]
    unit = _unit(sizes, [family.alignment for family in families])
    lower, upper, sections = _sections([f.lower for f in families], [f.upper for f in families])
    alignment = [max(1, family.alignment // unit) for family in families]
    size = [each // unit for each in sizes]
    return Blocks(lower, upper, np.array(size), np.array(alignment), sections), unit


def _unit(sizes: Sequence[int], alignments: Sequence[int]) -> int:
    """The largest number that divides sizes and offsets, where each block lies as low as it can.

    Such an offset is a sum of sizes, rounded up to an alignment. That changes nothing where the
    alignment divides the unit; where the unit divides the alignment, it leaves a multiple.
    """
    unit, before = math.gcd(*sizes), 0
    while unit != before:
        before = unit
        for alignment in set(alignments):
            if unit % alignment:
                unit = math.gcd(unit, alignment)
    return unit


def _sections(lower: Sequence[int], upper: Sequence[int]) -> tuple[Ints, Ints, int]:
    """Times as numbers of sections.

    Between two ends of buffers, the set that is alive grows: it is largest just before the second.
    """
    times = np.unique(np.concatenate([lower, upper]))
    begin, end = np.searchsorted(times, lower), np.searchsorted(times, upper)
    ends = np.unique(end)
    before = np.concatenate([[0], ends[:-1]])
    starts = np.unique(begin)
    # Sets that have grown since the last end.
    grown = np.searchsorted(starts, ends) > np.searchsorted(starts, before)
    kept = ends[grown] - 1
    return np.searchsorted(kept, begin), np.searchsorted(kept, end), len(kept)
