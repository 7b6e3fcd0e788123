"""Matrix products whose right operand is read where it lies, or packed in panels.

`C[n, m, p] = sum over k of a(n, m, k) * b(n, k, p)`. Of the left operand a tile reads few rows, one
element after the other, where they lie; a tile's rows are copied only where they would push each
other out of a cache. The right one is read in vectors along `p`; where it does not lie so, a panel
of it is copied first.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.places import CACHE_LINE, index, rounded, unflatten
from odtc.backends.kernels.tile import Machine, Tile, accumulator, keep, multiply
from odtc.backends.kernels.transpose import copy_transposed

Read = Callable[..., ir.Expr]

# Tasks that a product is cut into where it has them, so that all cores of a phone have some.
TASKS = 8
# Elements in a line of a cache.
LINE = CACHE_LINE // 4


@dataclass(frozen=True)
class Sizes:
    """Sizes of a product: matrices, rows, terms of the sum and columns of each."""

    batch: int
    rows: int
    depth: int
    columns: int


@dataclass(frozen=True)
class Panels:
    """How the right operand is read.

    Attributes:
        read: `(n, k, p)` to an element.
        is_dense: whether neighbours in `p` are neighbours in memory; those in `k` are, otherwise.
        pitch: elements from one `k` to the next, where they are.
        is_apart: whether neither are.
    """

    read: Read
    is_dense: bool
    pitch: int = 0
    is_apart: bool = False


def collides(pitch: int) -> bool:
    """Whether rows so many elements apart fall into the same few lines of a cache."""
    lines, rest = divmod(pitch * 4, CACHE_LINE)
    return pitch > 0 and not rest and lines % _SETS == 0


def panel_product(
    sizes: Sizes,
    left: Read,
    right: Panels,
    store: Read,
    ahead: Read,
    machine: Machine,
    *,
    left_pitch: int = 0,
    by_columns: bool = False,
) -> None:
    """Emits a product.

    Args:
        sizes: of the product.
        left: `(n, m, k)` to an element.
        right: the other operand.
        store: `(n, m, p, value)`, takes an element.
        ahead: `(n, m, p)`, prefetches what the store of an element touches.
        machine: the CPU.
        left_pitch: elements from a row of the left operand to the next, where its `k` are
            neighbours, else zero.
        by_columns: whether the neighbours of a result in memory are those in its column.
    """
    tile = machine.tile(sizes.rows, sizes.columns)
    is_short = sizes.columns < tile.columns
    panels = -(-sizes.columns // tile.columns)
    tiles, splits = split_rows(sizes.rows, tile.rows, sizes.batch * panels)
    with T.parallel(sizes.batch * panels * splits) as task:
        n, panel, split = unflatten(task, (sizes.batch, panels, splits))
        # The last panel and the last tile reach back over results that are there already.
        last = max(sizes.columns - tile.columns, 0)
        at = T.Bind(tirx.min(panel * tile.columns, index(last)))
        vector = _vectors(sizes, tile, right, n, at, is_short)
        results = accumulator(tile)
        scratch = T.sblock_alloc_buffer((tile.rows, tile.columns), "float32")
        with T.serial(tiles) as t:
            m = T.Bind(tirx.min((split * tiles + t) * tile.rows, sizes.rows - tile.rows))
            element = near_rows(sizes.depth, tile, lambda row, k: left(n, m + row, k), left_pitch)
            if not by_columns:
                foresee_tile(sizes, tile, (n, m, at), ahead)
            multiply(results, tile, [sizes.depth], element, vector)
            keep(results, scratch, tile, 0)
            store_tile(sizes, tile, scratch, (n, m, at), store, by_columns=by_columns)


def foresee_tile(
    sizes: Sizes, tile: Tile, start: tuple[ir.Expr, ir.Expr, ir.Expr], ahead: Read
) -> None:
    """Emits prefetches of what the stores of a tile's results will touch; see `store_tile`."""
    n, m, at = start
    width = min(sizes.columns, tile.columns)
    for row, line in itertools.product(range(tile.rows), [*range(0, width, LINE), width - 1]):
        ahead(n, m + row, at + line)


def store_tile(
    sizes: Sizes,
    tile: Tile,
    scratch: tirx.Buffer,
    start: tuple[ir.Expr, ir.Expr, ir.Expr],
    store: Read,
    *,
    by_columns: bool,
) -> None:
    """Emits the stores of a tile's results, from memory float32[rows, columns].

    Args:
        sizes: of the product.
        tile: its shape.
        scratch: the results.
        start: the matrix, its row and its column.
        store: see `panel_product`.
        by_columns: see `panel_product`.
    """
    n, m, at = start
    width = min(sizes.columns, tile.columns)
    if by_columns:
        with T.grid(width, tile.rows) as (j, row):
            store(n, m + row, at + j, tirx.BufferLoad(scratch, [row, j]))
    elif sizes.columns < tile.columns:
        with T.grid(tile.rows, width) as (row, j):
            store(n, m + row, j, tirx.BufferLoad(scratch, [row, j]))
    else:
        with (
            T.serial(tile.rows) as row,
            T.unroll(tile.vectors) as v,
            T.vectorized(tile.lanes) as lane,
        ):
            j = v * tile.lanes + lane
            store(n, m + row, at + j, tirx.BufferLoad(scratch, [row, j]))


def near_rows(depth: int, tile: Tile, left: Read, pitch: int) -> Read:
    """The rows of a tile; emits their copy where they would push each other out of a cache."""
    if tile.rows <= WAYS or not collides(pitch):
        return left
    rows = T.sblock_alloc_buffer((tile.rows, depth + tile.lanes), "float32")
    with T.grid(tile.rows, depth) as (row, k):
        T.buffer_store(rows, left(row, k), [row, k])
    return lambda row, k: tirx.BufferLoad(rows, [index(row), k])


def _vectors(
    sizes: Sizes, tile: Tile, right: Panels, n: ir.Expr, at: ir.Expr, is_short: bool
) -> Callable[[int, ir.Expr], ir.Expr]:
    """From a vector of the tile and `k` to the right operand; emits its copy if it needs one."""
    if right.is_dense and not is_short and not collides(right.pitch):
        return lambda v, k: right.read(n, k, tile.span(v, at))
    panel = T.sblock_alloc_buffer((sizes.depth, tile.columns), "float32")
    pack(sizes, tile, right, n, at, panel, lambda k, j: [k, j])
    return lambda v, k: tirx.BufferLoad(panel, [k, tile.span(v)])


def pack(
    sizes: Sizes,
    tile: Tile,
    right: Panels,
    n: ir.Expr,
    at: ir.Expr,
    target: tirx.Buffer,
    place: Read,
) -> None:
    """Emits the copy of a panel: the columns of a tile, with zeros behind those that there are.

    Args:
        sizes: of the product.
        tile: its shape.
        right: the operand.
        n: the matrix.
        at: first column of the panel.
        target: where to.
        place: `(k, j)` to an index of it; neighbours in `j` are neighbours there.
    """
    width = min(sizes.columns, tile.columns)
    is_short, dtype = sizes.columns < tile.columns, str(target.dtype)

    def read(k: ir.Expr, j: ir.Expr) -> ir.Expr:
        return rounded(right.read(n, k, at + j), dtype)

    if is_short:
        with T.grid(sizes.depth, tile.columns) as (k, j):
            T.buffer_store(target, tirx.const(0.0, dtype), place(k, j))
    if right.is_dense and not is_short:
        with T.serial(sizes.depth) as k:
            for v in range(tile.vectors):
                value = rounded(right.read(n, k, tile.span(v, at)), dtype)
                T.buffer_store(target, value, place(k, tile.span(v)))
    elif right.is_dense:
        with T.grid(sizes.depth, width) as (k, j):
            T.buffer_store(target, read(k, j), place(k, j))
    else:
        copy_transposed(
            (width, sizes.depth),
            lambda j, k: right.read(n, k, at + j),
            target,
            place,
            tile.lanes,
        )


# Sets of a usual first-level cache, and lines in each.
_SETS, WAYS = 64, 8


def split_rows(rows: int, tile_rows: int, tasks: int) -> tuple[int, int]:
    """Tiles of each part of the rows, and parts: only as many as make tasks enough."""
    tiles = -(-rows // tile_rows)
    parts = min(tiles, -(-TASKS // tasks))
    each = -(-tiles // parts)
    return each, -(-tiles // each)
