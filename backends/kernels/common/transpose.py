"""Transposed copies through vector registers.

A square of as many vectors as a vector has lanes is transposed by shuffles of pairs of registers,
log2 of the lanes times, so that memory sees whole vectors on both sides. They are those that x86
and Arm have instructions for, within parts of 16 bytes and of whole ones: others take their order
from registers, which LLVM keeps for all of a kernel, so that a product's sums have too few.
"""

import itertools
from collections.abc import Callable

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.places import index, rounded, size_of
from odtc.backends.kernels.common.vectors import ramp

Read = Callable[..., ir.Expr]

# Bytes of a vector within which elements are zipped.
_PART_BYTES = 16


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
    dtype = str(target.dtype)
    if min(rows, columns) < lanes:
        with T.grid(columns, rows) as (j, i):
            T.buffer_store(target, rounded(read(i, j), dtype), place(j, i))
        return
    with T.grid(-(-columns // lanes), -(-rows // lanes)) as (block, row_block):
        # The last ones reach back over what is there already: LLVM gathers elements that are left.
        column = T.Bind(tirx.min(block * lanes, columns - lanes))
        row = T.Bind(tirx.min(row_block * lanes, rows - lanes))
        _square(
            dtype,
            lambda i: rounded(read(row + i, ramp(column, lanes)), dtype),
            lambda j, value: T.buffer_store(target, value, place(column + j, ramp(row, lanes))),
            lanes,
        )


def _square(
    dtype: str,
    load: Callable[[int], ir.Expr],
    store: Callable[[int, ir.Expr], None],
    lanes: int,
) -> None:
    """Emits the transposition of one square of vectors.

    A round joins registers of `done` rows each, which hold one column of every `done`, in pairs.
    They are values with names, not elements of a buffer: that would be memory of the step, to which
    LLVM writes what is last in it, after the loops around, where sums need the registers.
    """
    values = [T.Bind(load(i)) for i in range(lanes)]
    part = min(lanes, _PART_BYTES // size_of(dtype))
    for done in (1 << step for step in range(lanes.bit_length() - 1)):
        is_within = done < part
        orders = _zips(lanes, part, done) if is_within else _halves(lanes, part)
        joined = list(values)
        for pair, column in itertools.product(range(lanes // done // 2), range(done)):
            first = 2 * pair * done + column
            both = [values[first], values[first + done]]
            for which, order in enumerate(orders):
                at = 2 * column + which if is_within else column + which * done
                value = tirx.Shuffle(both, [index(i) for i in order])
                joined[2 * pair * done + at] = T.Bind(value)
        values = joined
    for j, value in enumerate(values):
        store(j, value)


def _zips(lanes: int, part: int, run: int) -> list[list[int]]:
    """Shuffles of two vectors: runs alternate, from the first and the last half of every part."""
    return [
        [
            vector * lanes + start + half + element
            for start in range(0, lanes, part)
            for at in range(0, part // 2, run)
            for vector in range(2)
            for element in range(at, at + run)
        ]
        for half in (0, part // 2)
    ]


def _halves(lanes: int, part: int) -> list[list[int]]:
    """Shuffles of two concatenated vectors: the parts at even places, and those at odd ones."""
    return [
        [
            start + element
            for start in range(which * part, 2 * lanes, 2 * part)
            for element in range(part)
        ]
        for which in range(2)
    ]
