"""Copies of a tile's rows of the left operand, in what the tile multiplies."""

from collections.abc import Callable, Sequence

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.places import index, rounded
from odtc.backends.kernels.tile import Tile

Read = Callable[..., ir.Expr]


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
        with T.grid(first, tile.rows, *rest) as (k, row, *at):
            T.buffer_store(copy, rounded(read(row, k, *at), tile.dtype), [k, *at, row])
        return lambda row, *k: tirx.BufferLoad(copy, [*k, index(row)])
    # One more, so that rows do not push each other out of a cache.
    copy = T.sblock_alloc_buffer((tile.rows, first + 1, *rest), tile.dtype)
    with T.grid(tile.rows, *extents) as (row, *k):
        T.buffer_store(copy, rounded(read(row, *k), tile.dtype), [row, *k])
    return lambda row, *k: tirx.BufferLoad(copy, [index(row), *k])
