"""Orders in which blocks are placed, or tried: by what makes them hard to place."""

from collections.abc import Callable, Sequence

import numpy as np

from odtc.passes.memory.packing.blocks import Blocks, Ints


def highest_load(blocks: Blocks) -> Ints:
    """The load of the fullest section that each block is alive in."""
    load = blocks.load()
    # Row k of the table holds the highest of 2**k sections from each on.
    table = [load]
    while 2 ** len(table) <= blocks.sections:
        half, below = 2 ** (len(table) - 1), table[-1]
        table.append(np.maximum(below[:-half], below[half:]))
    length = blocks.upper - blocks.lower
    level = np.frexp(length)[1] - 1
    found = np.empty(len(blocks), np.int64)
    for k, highest in enumerate(table):
        rows = np.flatnonzero(level == k)
        left, right = blocks.lower[rows], blocks.upper[rows] - 2**k
        found[rows] = np.maximum(highest[left], highest[right])
    return found


_KEYS: dict[str, Callable[[Blocks], Ints]] = {
    "size": lambda blocks: blocks.size,
    "length": lambda blocks: blocks.upper - blocks.lower,
    "area": lambda blocks: blocks.size * (blocks.upper - blocks.lower),
    "load": highest_load,
    "early": lambda blocks: -blocks.lower,
    "late": lambda blocks: blocks.upper,
}


def order_of(blocks: Blocks, names: Sequence[str]) -> Ints:
    """Rows by what is named first, those alike by what is named next; the largest come first."""
    return np.lexsort([-_KEYS[name](blocks) for name in reversed(names)])
