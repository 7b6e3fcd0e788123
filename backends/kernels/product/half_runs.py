"""Sums of products in float16 that stay as exact as their operands.

A vector register holds twice as many float16 as float32, and a core multiplies and adds as many
vectors of either in a cycle. A float16 sum has 11 bits, so only a short run of terms is added up in
registers; its sum is then widened and added to float32 sums in memory. The error of long sums is
that of a run, as with blocked summation (Higham, "The Accuracy of Floating Point Summation", 1993).

With u = 2^-11 a sum of K terms is wrong by at most (2 + RUN) u times the sum of their magnitudes,
for rounded operands and for a run, and mostly by the square root of that. What exceeds float16
becomes infinite.
"""

import math
from collections.abc import Callable, Sequence

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.places import index, rounded
from odtc.backends.kernels.product.tile import Left, Right, Tile, accumulate, clear, keep, multiply

# Terms that are added up in float16. Random sums of 4608 terms are then wrong by 3 times what
# rounding their operands does, by 2 times with 32 terms and by 5 with 128. To widen the sums of a
# tile takes a Cortex-A76 some 140 cycles, beside 770 for so many steps.
RUN = 64

# From a row and a vector of a tile to the place of its sums in memory.
Place = Callable[[int, int], list[ir.Expr]]


def multiply_into(
    sums: tirx.Buffer,
    results: tirx.Buffer,
    tile: Tile,
    start: Sequence[ir.Expr],
    extents: Sequence[int],
    left: Left,
    right: Right,
) -> None:
    """Emits `sums[*outer, i, column + j] = sum over k of left(i, *k) * right(j, *k)`.

    Args:
        sums: float32[*outer, rows, columns] in memory.
        results: of `accumulator`.
        tile: its shape.
        start: the outer indices, and the column for the tile's first one.
        extents: sizes of the loops of the sum, outermost first.
        left: element of a row, in the tile's dtype.
        right: one of the tile's vectors.
    """
    *outer, column = start
    if tile.dtype == "float32":
        multiply(results, tile, extents, left, right)
        keep(results, sums, tile, column, outer)
        return

    def place(row: int, vector: int) -> list[ir.Expr]:
        return [*outer, index(row), tile.span(vector, column)]

    if math.prod(extents) <= RUN:
        multiply(results, tile, extents, left, right)
        _widen(results, sums, tile, place, is_first=True)
        return
    for row in range(tile.rows):
        for vector in range(tile.vectors):
            zero = tirx.Broadcast(tirx.const(0.0, "float32"), tile.lanes)
            T.buffer_store(sums, zero, place(row, vector))
    _add_runs(sums, results, tile, place, extents, left, right)


def add_into(
    sums: tirx.Buffer,
    results: tirx.Buffer,
    tile: Tile,
    place: Place,
    extents: Sequence[int],
    left: Left,
    right: Right,
) -> None:
    """Emits `sums[place(i, j)] += sum over k of left(i, *k) * right(j, *k)`.

    Args:
        sums: float32 in memory.
        results: of `accumulator`.
        tile: its shape.
        place: from a row and a vector of the tile to their index in the sums.
        extents: sizes of the loops of the sum, outermost first.
        left: element of a row, in the tile's dtype.
        right: one of the tile's vectors.
    """
    if tile.dtype == "float16":
        _add_runs(sums, results, tile, place, extents, left, right)
        return
    places = [
        (place(row, vector), [index(row), tile.span(vector)])
        for row in range(tile.rows)
        for vector in range(tile.vectors)
    ]
    for outside, inside in places:
        T.buffer_store(results, tirx.BufferLoad(sums, outside), inside)
    accumulate(results, tile, extents, left, right)
    for outside, inside in places:
        T.buffer_store(sums, tirx.BufferLoad(results, inside), outside)


def _add_runs(
    sums: tirx.Buffer,
    results: tirx.Buffer,
    tile: Tile,
    place: Place,
    extents: Sequence[int],
    left: Left,
    right: Right,
) -> None:
    """Emits what each run adds."""
    axis, size = cut(extents)
    pieces = -(-extents[axis] // size)
    with T.grid(*extents[:axis], pieces) as loops:
        *outer, piece = loops if isinstance(loops, Sequence) else [loops]
        start = piece * size
        is_even = extents[axis] % size == 0
        length = size if is_even else tirx.min(index(size), extents[axis] - start)
        clear(results, tile)
        accumulate(
            results,
            tile,
            [length, *extents[axis + 1 :]],
            lambda row, k, *inner: left(row, *outer, start + k, *inner),
            lambda vector, k, *inner: right(vector, *outer, start + k, *inner),
        )
        _widen(results, sums, tile, place, is_first=False)


def cut(extents: Sequence[int]) -> tuple[int, int]:
    """The loop that is cut into runs, and its steps in each: all further in are within one."""
    axis, inner = len(extents) - 1, 1
    while axis > 0 and inner * extents[axis] <= RUN:
        inner *= extents[axis]
        axis -= 1
    most = max(RUN // inner, 1)
    return axis, -(-extents[axis] // -(-extents[axis] // most))


def _widen(
    results: tirx.Buffer, sums: tirx.Buffer, tile: Tile, place: Place, *, is_first: bool
) -> None:
    """Emits what a run's sums add to those in memory, or put there."""
    for row in range(tile.rows):
        for vector in range(tile.vectors):
            value = rounded(tirx.BufferLoad(results, [index(row), tile.span(vector)]), "float32")
            at = place(row, vector)
            T.buffer_store(sums, value if is_first else tirx.BufferLoad(sums, at) + value, at)
