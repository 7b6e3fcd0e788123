"""Matrix products of packed operands.

`C[n, m, p] = sum over k of a(n, m, k) * b(n, k, p)` as in `backends/kernels/panel_product.py`, but
the right operand is copied into panels, in which a tile reads its vectors one after the other, as
in K. Goto and R. van de Geijn, "Anatomy of high-performance matrix multiplication" (2008): read
where it lies, a panel of many terms has lines in as many places, which push each other out of
caches and are foreseen by none. A task packs as many panels as a core has room for near it; then
each tile runs over all of them. The left operand is copied where its elements are scattered, push
each other out of a cache or are rounded to float16: once for all tasks, or tile by tile if it is
large.

Where all matrices share the left operand, as images share a weight, their columns are those of one
matrix: panels go on from one image to the next.
"""

from dataclasses import dataclass

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.columns import Columns
from odtc.backends.kernels.half_runs import multiply_into
from odtc.backends.kernels.panel_product import (
    LINE,
    TASKS,
    WAYS,
    Panels,
    Read,
    Sizes,
    split_rows,
)
from odtc.backends.kernels.places import index, rounded, size_of, unflatten
from odtc.backends.kernels.row_copy import copy_all_rows, copy_rows
from odtc.backends.kernels.tile import Machine, Tile, accumulator
from odtc.backends.kernels.transpose import copy_transposed

# Rows, terms and columns from which on copies of operands cost little.
_WORTH_A_COPY = 16
# Bytes of a left operand that is copied for all tasks: it is a workspace for as long as they run.
_MOST_COPIED = 1 << 23


@dataclass(frozen=True)
class Left:
    """The left operand.

    Attributes:
        read: `(n, m, k)` to an element.
        lies: whether the `k` of a row are neighbours in memory; its rows are, otherwise.
        collides: whether rows push each other out of a cache.
        shared: whether it is the same for all matrices.
    """

    read: Read
    lies: bool
    collides: bool = False
    shared: bool = False


@dataclass(frozen=True)
class Results:
    """How results are written.

    Attributes:
        store: `(n, m, p, value)`, takes an element.
        ahead: `(n, m, p)`, prefetches what the store of an element touches.
        by_columns: whether the neighbours of a result in memory are those in its column.
        apart: whether it has none.
    """

    store: Read
    ahead: Read
    by_columns: bool = False
    apart: bool = False


def is_worth_packing(sizes: Sizes) -> bool:
    """Whether each element of either operand is multiplied often, in sums that are not short."""
    return min(sizes.rows, sizes.depth, sizes.batch * sizes.columns) >= _WORTH_A_COPY


def packed_product(
    sizes: Sizes,
    left: Left,
    right: Panels,
    results: Results,
    machine: Machine,
    dtype: str,
) -> None:
    """Emits a product.

    Args:
        sizes: of the product.
        left: one operand.
        right: the other one.
        results: of the product.
        machine: the CPU.
        dtype: what is multiplied.
    """
    columns = Columns(sizes.batch if left.shared else 1, sizes.columns)
    matrices = 1 if left.shared else sizes.batch
    tile = machine.tile(sizes.rows, columns.total, dtype)
    groups, panels = _groups(sizes.depth, matrices, columns.total, tile, machine)
    tiles, splits = split_rows(sizes.rows, tile.rows, matrices * groups)
    is_copied = not left.lies or dtype == "float16" or (left.collides and tile.rows > WAYS)
    copies = None
    if is_copied and left.shared and sizes.rows * sizes.depth * size_of(dtype) <= _MOST_COPIED:
        shape, first = (sizes.rows, sizes.depth), index(0)
        copies = copy_all_rows(
            tile, shape, lambda m, k: left.read(first, m, k), side_by_side=not left.lies
        )
    with T.parallel(matrices * groups * splits) as task:
        n, group, split = unflatten(task, (matrices, groups, splits))
        packed = T.sblock_alloc_buffer((panels, sizes.depth, tile.columns), dtype)

        def column(panel: ir.Expr) -> ir.Expr:
            """The last panel reaches back over results that are there already."""
            last = index(max(columns.total - tile.columns, 0))
            return T.Bind(tirx.min((group * panels + panel) * tile.columns, last))

        with T.serial(panels) as panel:
            _pack(sizes.depth, tile, columns, right, (n, column(panel)), (packed, panel))
        registers = accumulator(tile)
        scratch = T.sblock_alloc_buffer((tile.rows, tile.columns), "float32")
        with T.serial(tiles) as t:
            number = split * tiles + t
            m = T.Bind(tirx.min(number * tile.rows, sizes.rows - tile.rows))

            def row_of(row: int | ir.Expr, k: ir.Expr, m: ir.Expr = m) -> ir.Expr:
                return left.read(n, m + row, k)

            rows = row_of
            if copies:
                rows = copies(tirx.min(number, index(-(-sizes.rows // tile.rows) - 1)))
            elif is_copied:
                rows = copy_rows(tile, [sizes.depth], row_of, side_by_side=not left.lies)
            with T.serial(panels) as panel:
                at = column(panel)
                if not results.by_columns:
                    _foresee(tile, columns, (n, m, at), results.ahead)
                multiply_into(
                    scratch,
                    registers,
                    tile,
                    [index(0)],
                    [sizes.depth],
                    rows,
                    lambda v, k: tirx.BufferLoad(packed, [panel, k, tile.span(v)]),
                )
                store_tile = _store_columns if results.by_columns else _store_rows
                store_tile(tile, columns, scratch, (n, m, at), results)


def _pack(
    depth: int,
    tile: Tile,
    columns: Columns,
    right: Panels,
    start: tuple[ir.Expr, ir.Expr],
    target: tuple[tirx.Buffer, ir.Expr],
) -> None:
    """Emits the copy of a panel: the columns of a tile, with zeros behind those that there are."""
    (n, at), (packed, panel), dtype = start, target, tile.dtype
    if columns.total < tile.columns:
        with T.grid(depth, tile.columns) as (k, j):
            T.buffer_store(packed, tirx.const(0.0, dtype), [panel, k, j])
    if not (right.is_dense or right.is_apart):
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
            apart=right.is_apart,
        )


def _foresee(
    tile: Tile, columns: Columns, start: tuple[ir.Expr, ir.Expr, ir.Expr], ahead: Read
) -> None:
    """Emits prefetches of what the stores of a tile's results will touch."""
    n, m, at = start
    width = min(columns.total, tile.columns)
    for line in [*range(0, width, LINE), width - 1]:
        of, p = (T.Bind(each) for each in columns.place(n, at + line))
        for row in range(tile.rows):
            ahead(of, m + row, p)


def _store_columns(
    tile: Tile,
    columns: Columns,
    scratch: tirx.Buffer,
    start: tuple[ir.Expr, ir.Expr, ir.Expr],
    results: Results,
) -> None:
    """Emits the stores of a tile's results, from memory float32[rows, columns], by column."""
    n, m, at = start
    with T.grid(min(columns.total, tile.columns), tile.rows) as (j, row):
        of, p = columns.place(n, at + j)
        results.store(of, m + row, p, tirx.BufferLoad(scratch, [row, j]))


def _store_rows(
    tile: Tile,
    columns: Columns,
    scratch: tirx.Buffer,
    start: tuple[ir.Expr, ir.Expr, ir.Expr],
    results: Results,
) -> None:
    """The same by row, whose elements are neighbours unless they lie apart."""
    n, m, at = start

    def of_vector(vector: int, of: ir.Expr, p: ir.Expr) -> None:
        with T.serial(tile.rows) as row, T.vectorized(tile.lanes) as lane:
            value = tirx.BufferLoad(scratch, [row, vector * tile.lanes + lane])
            results.store(of, m + row, p + lane, value)

    def of_element(j: ir.Expr, of: ir.Expr, p: ir.Expr) -> None:
        with T.serial(tile.rows) as row:
            results.store(of, m + row, p, tirx.BufferLoad(scratch, [row, j]))

    columns.by_vector(tile, n, at, of_vector, of_element, apart=results.apart)


def _groups(
    depth: int, matrices: int, columns: int, tile: Tile, machine: Machine
) -> tuple[int, int]:
    """Groups of panels, and panels in each: what a core has near it, and tasks enough."""
    panels = -(-columns // tile.columns)
    room = max(machine.cache_bytes // (size_of(tile.dtype) * depth * tile.columns), 1)
    groups = max(-(-panels // room), min(panels, -(-TASKS // matrices)))
    each = -(-panels // groups)
    return -(-panels // each), each
