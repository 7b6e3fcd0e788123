"""Blocks placed one after the other, each as low as it fits: quick, and often near the bound."""

import numpy as np

from odtc.passes.memory.packing.blocks import Blocks, Ints
from odtc.passes.memory.packing.budget import Budget
from odtc.passes.memory.packing.orders import order_of

# What is looked at first, second and so on, in each order that is tried.
ORDERS: tuple[tuple[str, ...], ...] = (
    ("length", "size"),
    ("size", "length"),
    ("area", "size"),
    ("load", "length", "size"),
    ("load", "size", "length"),
    ("early", "size"),
    ("late", "size"),
)


def first_fit(blocks: Blocks, order: Ints, ceiling: int | None = None) -> tuple[Ints, int | None]:
    """Places blocks in an order, each at the lowest offset that is free all its life.

    Args:
        blocks: what is placed.
        order: their rows.
        ceiling: no block may end above it; None lets them.

    Returns:
        Offsets in units, and the row of the first block that did not fit, where the work ended.
    """
    offsets = np.zeros(len(blocks), np.int64)
    placed = _Placed(len(blocks))
    columns = (blocks.lower, blocks.upper, blocks.size, blocks.alignment)
    for row, lower, upper, size, alignment in zip(
        order.tolist(), *(column[order].tolist() for column in columns), strict=True
    ):
        offset = placed.lowest(lower, upper, size, alignment)
        if ceiling is not None and offset + size > ceiling:
            return offsets, row
        placed.add(lower, upper, offset, size)
        offsets[row] = offset
    return offsets, None


class _Placed:
    """Blocks that have a place, in the order of their offsets."""

    def __init__(self, most: int) -> None:
        self._count = 0
        self._start, self._end, self._lower, self._upper = np.zeros((4, most), np.int64)

    def lowest(self, lower: int, upper: int, size: int, alignment: int) -> int:
        """The lowest multiple of the alignment at which so much is free from lower to upper."""
        n = self._count
        met = np.flatnonzero((self._lower[:n] < upper) & (self._upper[:n] > lower))
        if not len(met):
            return 0
        free = np.zeros(len(met) + 1, np.int64)
        np.maximum.accumulate(self._end[met], out=free[1:])
        if alignment > 1:
            free = -(-free // alignment) * alignment
        fits = free[:-1] + size <= self._start[met]
        first = int(fits.argmax())
        return int(free[first if fits[first] else -1])

    def add(self, lower: int, upper: int, offset: int, size: int) -> None:
        """Notes a block."""
        n = self._count
        at = int(self._start[:n].searchsorted(offset, side="right"))
        values = (offset, offset + size, lower, upper)
        for column, value in zip(
            (self._start, self._end, self._lower, self._upper), values, strict=True
        ):
            column[at + 1 : n + 1] = column[at:n]
            column[at] = value
        self._count = n + 1


def place(blocks: Blocks, enough: int, budget: Budget) -> Ints:
    """The lowest plan that one of the orders gives, or the first that is low enough; in units."""
    best, height = np.zeros(0, np.int64), None
    for names in ORDERS:
        if height is not None and (height <= enough or not budget.left()):
            break
        ceiling = None if height is None else height - 1
        offsets, left_out = first_fit(blocks, order_of(blocks, names), ceiling)
        budget.spend(len(blocks) * (20 + len(blocks) // 1000))
        if left_out is None:
            best, height = offsets, int((offsets + blocks.size).max())
    return best
