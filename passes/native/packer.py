"""The search for a plan of blocks, by the function of `planner.cc`."""

import ctypes
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from odtc.passes.memory.packing.blocks import Blocks, Ints

_INTS, _DOUBLES = ctypes.POINTER(ctypes.c_int64), ctypes.POINTER(ctypes.c_double)


class Ended(IntEnum):
    """How a search ended."""

    FOUND = 0
    NONE = 1
    SPENT = 2


class Spend(NamedTuple):
    """Limits of a search: nodes, steps as of `Limit`, and seconds on the clock; None: no limit."""

    nodes: int
    steps: int
    seconds: float | None


class Searched(NamedTuple):
    """How a search ended: a plan if one was found, a bound if there is none, and steps left."""

    ended: Ended
    offsets: "Ints"
    bound: int
    steps: int


def search_blocks(
    functions: ctypes.CDLL,
    blocks: "Blocks",
    rank: NDArray[np.float64],
    height: int,
    weight: NDArray[np.float64],
    learn: bool,
    spend: Spend,
) -> Searched:
    """Looks for a plan of blocks of a height.

    Args:
        functions: of `planner.cc`.
        blocks: what is placed.
        rank: of each block: lower ones are tried first; float64.
        height: of the plan, in units.
        weight: how often each section failed; float64, added to where `learn` is.
        learn: whether failures are counted on.
        spend: when it ends.
    """
    columns = [
        np.ascontiguousarray(each, np.int64)
        for each in (blocks.lower, blocks.upper, blocks.size, blocks.alignment)
    ]
    rank = np.ascontiguousarray(rank, np.float64)
    offsets = np.zeros(len(blocks), np.int64)
    left, bound = ctypes.c_int64(spend.steps), ctypes.c_int64()
    ended = functions.odtc_search(
        len(blocks),
        blocks.sections,
        (_INTS * len(columns))(*(each.ctypes.data_as(_INTS) for each in columns)),
        rank.ctypes.data_as(_DOUBLES),
        ctypes.c_int64(height),
        weight.ctypes.data_as(_DOUBLES),
        int(learn),
        ctypes.c_int64(spend.nodes),
        ctypes.byref(left),
        ctypes.c_double(-1.0 if spend.seconds is None else spend.seconds),
        offsets.ctypes.data_as(_INTS),
        ctypes.byref(bound),
    )
    return Searched(Ended(ended), offsets, bound.value, left.value)
