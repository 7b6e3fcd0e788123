"""Bytes that tensors cover while they come and go, in n log n of them.

A tensor may lie within another one, so that sizes cannot be added up. Over the places where tensors
begin and end stands a tree of segments: each knows how many tensors cover all of it, and how many
of its bytes are covered (Bentley, "Algorithms for Klee's Rectangle Problems", 1977).
"""

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise

# First byte, the byte after the last; the first time at which it is there, and the last one.
Stay = tuple[int, int, int, int]


def covered_bytes(stays: Iterable[Stay], times: int) -> tuple[int, ...]:
    """Bytes that are covered at each time, from 0."""
    kept = [stay for stay in stays if stay[0] < stay[1]]
    begin, end = defaultdict(list), defaultdict(list)
    for stay in kept:
        begin[stay[2]].append(stay)
        end[stay[3] + 1].append(stay)
    segments = _Segments({place for stay in kept for place in stay[:2]})
    found = []
    for time in range(times):
        for stay in end[time]:
            segments.change(stay[0], stay[1], -1)
        for stay in begin[time]:
            segments.change(stay[0], stay[1], 1)
        found.append(segments.covered)
    return tuple(found)


class _Segments:
    """The tree.

    Args:
        places: where tensors begin and end.
    """

    def __init__(self, places: set[int]) -> None:
        ordered = sorted(places)
        self._number = {place: number for number, place in enumerate(ordered)}
        self._leaves = 1 << max(len(ordered) - 2, 0).bit_length()
        sizes = [end - begin for begin, end in pairwise(ordered)]
        leaves = sizes + [0] * (self._leaves - len(sizes))
        self._sizes = [0] * self._leaves + leaves
        for node in range(self._leaves - 1, 0, -1):
            self._sizes[node] = self._sizes[2 * node] + self._sizes[2 * node + 1]
        self._covers = [0] * (2 * self._leaves)
        self._covered = [0] * (2 * self._leaves)

    @property
    def covered(self) -> int:
        """Bytes that are covered now."""
        return self._covered[1]

    def change(self, begin: int, end: int, by: int) -> None:
        """One tensor more, or less, from one place to another."""
        left, right = self._number[begin] + self._leaves, self._number[end] + self._leaves
        first, last = left, right - 1
        while left < right:
            if left & 1:
                self._cover(left, by)
                left += 1
            if right & 1:
                right -= 1
                self._cover(right, by)
            left, right = left >> 1, right >> 1
        self._settle_above(first)
        self._settle_above(last)

    def _settle_above(self, node: int) -> None:
        while node := node >> 1:
            self._settle(node)

    def _cover(self, node: int, by: int) -> None:
        self._covers[node] += by
        self._settle(node)

    def _settle(self, node: int) -> None:
        """Sets the covered part of a segment, by its own tensors or those of its halves."""
        if self._covers[node]:
            self._covered[node] = self._sizes[node]
        elif node < self._leaves:
            self._covered[node] = self._covered[2 * node] + self._covered[2 * node + 1]
        else:
            self._covered[node] = 0
