"""Copies of a tile's rows of the left operand, in what the tile multiplies."""

import itertools
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.places import CACHE_LINE, foresee, index, rounded
from odtc.backends.kernels.product.tile import Tile

Read = Callable[..., ir.Expr]

# Terms of the sum whose rows are copied in one go.
_RUN = 16
# How many terms ahead of those that are copied side by side others are asked for, and how many
# elements of a term are copied without a loop.
_AHEAD, _UNROLLED = 8, 128


def copy_rows(tile: Tile, extents: Sequence[int], read: Read, *, side_by_side: bool) -> Read:
    """Emits the copy.

    Args:
        tile: its shape.
        extents: sizes of the loops of the sum, outermost first.
        read: `(row, *k)` to an element.
        side_by_side: whether the rows of one `k` are neighbours in the copy, as a step reads them;
            otherwise the elements of a row are, so that neighbours are read and written.

    Returns:
        `(row, *k)` to an element of the copy.
    """
    first, *rest = extents
    if side_by_side:
        copy = T.sblock_alloc_buffer((*extents, tile.rows), tile.dtype)
        places = [*itertools.product(*map(range, (tile.rows, *rest)))]
        loop = T.unroll if len(places) <= _UNROLLED else T.serial
        with T.serial(first) as k, ExitStack() as loops:
            # Neighbours in a row and in `k` may be pages apart, which no hardware foresees.
            ahead = T.Bind(tirx.min(k + _AHEAD, first - 1))
            for row, *at in places[:: CACHE_LINE // 4]:
                foresee(read(index(row), ahead, *map(index, at)))
            row, *at = (loops.enter_context(loop(extent)) for extent in (tile.rows, *rest))
            T.buffer_store(copy, rounded(read(row, k, *at), tile.dtype), [k, *at, row])
        return lambda row, *k: tirx.BufferLoad(copy, [*k, index(row)])
    # One more, so that rows do not push each other out of a cache.
    copy = T.sblock_alloc_buffer((tile.rows, first + 1, *rest), tile.dtype)
    with T.grid(tile.rows, *extents) as (row, *k):
        T.buffer_store(copy, rounded(read(row, *k), tile.dtype), [row, *k])
    return lambda row, *k: tirx.BufferLoad(copy, [index(row), *k])


def copy_all_rows(
    tile: Tile,
    shape: tuple[int, int],
    first_row: Callable[[ir.Expr], ir.Expr],
    read: Read,
    *,
    side_by_side: bool,
) -> Callable[[ir.Expr], Read]:
    """Emits the copy of the rows of some tiles, on all threads; see `copy_rows`.

    Args:
        tile: its shape.
        shape: how many, and terms of the sum.
        first_row: of a tile.
        read: `(row, k)` to an element.
        side_by_side: whether the rows of one `k` are neighbours, in the copy and where they lie.

    Returns:
        From a tile to what reads its copy.
    """
    tiles, depth = shape
    if not side_by_side:
        # A line more, so that rows do not push each other out of a cache.
        copy = T.sblock_alloc_buffer((tiles, tile.rows, depth + CACHE_LINE // 4), tile.dtype)
        with T.parallel(tiles) as t:
            m = first_row(t)
            with T.grid(tile.rows, depth) as (row, k):
                T.buffer_store(copy, rounded(read(m + row, k), tile.dtype), [t, row, k])
        return lambda t: lambda row, k: tirx.BufferLoad(copy, [t, index(row), k])
    copy = T.sblock_alloc_buffer((tiles, depth, tile.rows), tile.dtype)
    run = min(_RUN, depth)
    with T.parallel(-(-depth // run)) as part:
        # Whole rows of `k` are read then, and a tile's are written side by side.
        begin = T.Bind(tirx.min(part * run, depth - run))
        with T.serial(tiles) as t:
            m = first_row(t)
            with T.serial(run) as step, T.vectorized(tile.rows) as row:
                value = rounded(read(m + row, begin + step), tile.dtype)
                T.buffer_store(copy, value, [t, begin + step, row])
    return lambda t: lambda row, k: tirx.BufferLoad(copy, [t, k, index(row)])
