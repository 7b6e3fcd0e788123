"""Code that matrix products share: packing the right operand into panels, and storing tiles."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.places import CACHE_LINE, index, rounded
from odtc.backends.kernels.common.transpose import copy_transposed
from odtc.backends.kernels.product.columns import Columns
from odtc.backends.kernels.product.tile import Tile

Read = Callable[..., ir.Expr]
Rows = TypeVar("Rows")

# Elements in a line of a cache.
LINE = CACHE_LINE // 4


@dataclass(frozen=True)
class Panels:
    """How the right operand is read.

    Attributes:
        read: `(n, k, p)` to an element.
        is_dense: whether neighbours in `p` are neighbours in memory; those in `k` are, otherwise.
        pitch: elements from one `k` to the next, where they are.
        unit: of elements that are computed as they are read, so many neighbours in memory are read
            together; 0 of others. They are packed, to be computed once.
    """

    read: Read
    is_dense: bool
    pitch: int = 0
    unit: int = 0


@dataclass(frozen=True)
class Results:
    """How results are written.

    Attributes:
        store: `(n, m, p, value)`, takes an element.
        ahead: `(n, m, p)`, prefetches what the store of an element touches.
        by_columns: whether the neighbours of a result in memory are those in its column.
        once: whether none is to be stored twice, as the result may lie over what it is added to.
    """

    store: Read
    ahead: Read
    by_columns: bool = False
    once: bool = False


def pack(
    depth: int,
    tile: Tile,
    columns: Columns,
    right: Panels,
    start: tuple[ir.Expr, ir.Expr],
    target: tuple[tirx.Buffer, ir.Expr],
) -> None:
    """Emits the copy of a panel: the columns of a tile, with zeros after those that there are."""
    (n, at), (packed, panel), dtype = start, target, tile.dtype
    if columns.total < tile.columns:
        with T.grid(depth, tile.columns) as (k, j):
            T.buffer_store(packed, tirx.const(0.0, dtype), [panel, k, j])
    if not right.is_dense:
        copy_transposed(
            (min(columns.total, tile.columns), depth),
            lambda j, k: right.read(n, k, at + j),
            packed,
            lambda k, j: [panel, k, j],
            tile.lanes,
        )
        return
    with T.serial(depth) as k:

        def put(at: ir.Expr, value: ir.Expr) -> None:
            T.buffer_store(packed, rounded(value, dtype), [panel, k, at])

        columns.by_vector(
            tile,
            n,
            at,
            lambda v, of, p: put(tile.span(v), right.read(of, k, tile.span(0, p))),
            lambda j, of, p: put(j, right.read(of, k, p)),
        )


def each_tile(
    high: ir.Expr | int,
    wide: ir.Expr | int,
    below: int,
    rows_of: Callable[[ir.Expr], Rows],
    multiply: Callable[[Rows, ir.Expr], None],
) -> None:
    """Emits `multiply(rows_of(t), panel)` for every tile `t` of the rows, and every panel.

    Args:
        high: tiles, one above the other.
        wide: panels, side by side.
        below: tiles that are multiplied by a panel before the next panel is.
        rows_of: from a tile to what it reads; may emit what all panels share, if `below` is one.
        multiply: emits a tile's product.
    """
    if below == 1:
        with T.serial(high) as t:
            rows = rows_of(t)
            with T.serial(wide) as panel:
                multiply(rows, panel)
        return
    with T.serial((index(0) + high + below - 1) // below) as part, T.serial(wide) as panel:
        begin = part * below
        with T.serial(tirx.min(index(below), high - begin)) as step:
            multiply(rows_of(begin + step), panel)


def foresee_tile(
    tile: Tile, columns: Columns, start: tuple[ir.Expr, ir.Expr, ir.Expr], results: Results
) -> None:
    """Emits prefetches of what the stores of a tile's results will touch; see `store_tile`."""
    if results.by_columns:
        return
    n, m, at = start
    width = min(columns.total, tile.columns)
    for line in [*range(0, width, LINE), width - 1]:
        of, p = (T.Bind(each) for each in columns.place(n, at + line))
        for row in range(tile.rows):
            results.ahead(of, m + row, p)


def store_tile(
    tile: Tile,
    columns: Columns,
    scratch: tirx.Buffer,
    start: tuple[ir.Expr, ir.Expr, ir.Expr],
    results: Results,
) -> None:
    """Emits the stores of a tile's results.

    Args:
        tile: its shape.
        columns: of the product.
        scratch: the results, float32[rows, columns].
        start: the matrix, its row and its column.
        results: of the product.
    """
    n, m, at = start
    if results.by_columns:
        with T.grid(min(columns.total, tile.columns), tile.rows) as (j, row):
            of, p = columns.place(n, at + j)
            results.store(of, m + row, p, tirx.BufferLoad(scratch, [row, j]))
        return

    def of_vector(vector: int, of: ir.Expr, p: ir.Expr) -> None:
        with T.serial(tile.rows) as row, T.vectorized(tile.lanes) as lane:
            value = tirx.BufferLoad(scratch, [row, vector * tile.lanes + lane])
            results.store(of, m + row, p + lane, value)

    def of_element(j: ir.Expr, of: ir.Expr, p: ir.Expr) -> None:
        with T.serial(tile.rows) as row:
            results.store(of, m + row, p, tirx.BufferLoad(scratch, [row, j]))

    columns.by_vector(tile, n, at, of_vector, of_element)
