"""Transposed copies through vector registers.

A square of as many vectors as a vector has lanes is transposed by zips of pairs of registers, log2
of the lanes times, so that memory sees whole vectors on both sides.
"""

from collections.abc import Callable

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.places import index, rounded
from odtc.backends.kernels.vectors import ramp

Read = Callable[..., ir.Expr]


def copy_transposed(
    shape: tuple[int, int],
    read: Read,
    target: tirx.Buffer,
    place: Callable[[ir.Expr, ir.Expr], list[ir.Expr]],
    lanes: int,
) -> None:
    """Emits `target[place(j, i)] = read(i, j)` for a matrix.

    Args:
        shape: rows i and columns j; neighbours in `j` are neighbours where they are read.
        read: element of the source; takes a vector of columns, too.
        target: where to; elements take its dtype as they are read.
        place: its index; neighbours in `i` are neighbours there. Takes a vector of rows, too.
        lanes: elements of a vector.
    """
    rows, columns = shape
    row_blocks, column_blocks = rows // lanes, columns // lanes
    dtype = str(target.dtype)

    def element(i: ir.Expr, j: ir.Expr) -> None:
        T.buffer_store(target, rounded(read(i, j), dtype), place(j, i))

    if row_blocks and column_blocks:
        squares = [T.sblock_alloc_buffer((lanes, lanes), dtype, scope="local") for _ in range(2)]
        with T.grid(column_blocks, row_blocks) as (block, row_block):
            _square(
                squares,
                lambda i: rounded(read(row_block * lanes + i, ramp(block * lanes, lanes)), dtype),
                lambda j, value: T.buffer_store(
                    target, value, place(block * lanes + j, ramp(row_block * lanes, lanes))
                ),
                lanes,
            )
    done_rows = row_blocks * lanes if column_blocks else 0
    done_columns = column_blocks * lanes if row_blocks else 0
    if done_columns < columns and done_rows:
        with T.grid(columns - done_columns, done_rows) as (j, i):
            element(i, done_columns + j)
    if done_rows < rows:
        with T.grid(columns, rows - done_rows) as (j, i):
            element(done_rows + i, j)


def _square(
    squares: list[tirx.Buffer],
    load: Callable[[int], ir.Expr],
    store: Callable[[int, ir.Expr], None],
    lanes: int,
) -> None:
    """Emits the transposition of one square of vectors."""
    low = [i // 2 + (lanes if i % 2 else 0) for i in range(lanes)]
    zips = [[index(i) for i in low], [index(i + lanes // 2) for i in low]]
    source, target = squares
    for i in range(lanes):
        T.buffer_store(source, load(i), [index(i), ramp(0, lanes)])
    half, rounds = lanes // 2, lanes.bit_length() - 1
    for _ in range(rounds):
        for i in range(half):
            pair = [tirx.BufferLoad(source, [index(row), ramp(0, lanes)]) for row in (i, i + half)]
            for which, order in enumerate(zips):
                at = [index(2 * i + which), ramp(0, lanes)]
                T.buffer_store(target, tirx.Shuffle(pair, order), at)
        source, target = target, source
    for j in range(lanes):
        store(j, tirx.BufferLoad(source, [index(j), ramp(0, lanes)]))
