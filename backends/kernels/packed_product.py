"""Matrix products of packed operands.

`C[n, m, p] = sum over k of a(n, m, k) * b(n, k, p)` as in `backends/kernels/panel_product.py`, but
the right operand is copied into panels, in which a tile reads its vectors one after the other, as
in K. Goto and R. van de Geijn, "Anatomy of high-performance matrix multiplication" (2008): read
where it lies, a panel of many terms has lines in as many places, which push each other out of
caches and are foreseen by none. A task packs as many panels as a core has room for near it; then
each tile runs over all of them. The left operand is copied, tile by tile, where its elements are
scattered or are rounded to float16.

Where all matrices share the left operand, as images share a weight, their columns are those of one
matrix: panels go on from one image to the next.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.half_runs import multiply_into
from odtc.backends.kernels.panel_product import LINE, TASKS, Panels, Read, Sizes, split_rows
from odtc.backends.kernels.places import index, rounded, size_of, unflatten
from odtc.backends.kernels.row_copy import copy_rows
from odtc.backends.kernels.tile import Machine, Tile, accumulator
from odtc.backends.kernels.transpose import copy_transposed

# Rows, terms and columns from which on copies of operands cost little.
_WORTH_A_COPY = 16
# Terms of the sum whose elements of the left operand are copied in one go.
_RUN = 16


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
    columns = _Columns(sizes.batch if left.shared else 1, sizes.columns)
    matrices = 1 if left.shared else sizes.batch
    tile = machine.tile(sizes.rows, columns.total, dtype)
    groups, panels = _groups(sizes.depth, matrices, columns.total, tile, machine)
    tiles, splits = split_rows(sizes.rows, tile.rows, matrices * groups)
    is_copied = not left.lies or left.collides or dtype == "float16"
    of_tile = _copied_tiles(sizes, tile, left) if left.shared and is_copied else None
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
            if of_tile:
                rows = of_tile(tirx.min(number, index(-(-sizes.rows // tile.rows) - 1)))
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


@dataclass(frozen=True)
class _Columns:
    """Columns that are counted through several matrices.

    Attributes:
        matrices: how many.
        each: columns of one.
    """

    matrices: int
    each: int

    @property
    def total(self) -> int:
        """Columns of all."""
        return self.matrices * self.each

    def place(self, n: ir.Expr, at: ir.Expr) -> tuple[ir.Expr, ir.Expr]:
        """The matrix and its column."""
        return (n, at) if self.matrices == 1 else (at // self.each, at % self.each)

    def by_vector(
        self,
        tile: Tile,
        n: ir.Expr,
        at: ir.Expr,
        of_vector: Callable[[int, ir.Expr, ir.Expr], None],
        of_element: Callable[[ir.Expr, ir.Expr, ir.Expr], None],
        *,
        apart: bool = False,
    ) -> None:
        """Emits something for the columns of a tile.

        Args:
            tile: its shape.
            n: the matrix, where there is one.
            at: the first column.
            of_vector: `(vector, n, p)`, where a vector's columns are of one matrix.
            of_element: `(j, n, p)`, where a column of the tile is on its own.
            apart: whether each column is.
        """
        if apart or self.total < tile.columns:
            with T.serial(min(self.total, tile.columns)) as j:
                of_element(j, *self.place(n, at + j))
            return
        for vector in range(tile.vectors):
            start = vector * tile.lanes
            of, p = (T.Bind(each) for each in self.place(n, at + start))
            if self.matrices == 1:
                of_vector(vector, of, p)
                continue
            with T.If(p + tile.lanes <= self.each):
                with T.Then():
                    of_vector(vector, of, p)
                with T.Else(), T.serial(tile.lanes) as lane:
                    of_element(start + lane, *self.place(n, at + start + lane))


def _copied_tiles(sizes: Sizes, tile: Tile, left: Left) -> Callable[[ir.Expr], Read]:
    """From a tile to a copy of its rows; emits the copy of all, for all tasks."""
    tiles = -(-sizes.rows // tile.rows)
    first = index(0)

    def start(t: ir.Expr) -> ir.Expr:
        return T.Bind(tirx.min(t * tile.rows, sizes.rows - tile.rows))

    if left.lies:
        # One more, so that rows do not push each other out of a cache.
        copy = T.sblock_alloc_buffer((tiles, tile.rows, sizes.depth + LINE), tile.dtype)
        with T.parallel(tiles) as t:
            m = start(t)
            with T.grid(tile.rows, sizes.depth) as (row, k):
                T.buffer_store(copy, rounded(left.read(first, m + row, k), tile.dtype), [t, row, k])
        return lambda t: lambda row, k: tirx.BufferLoad(copy, [t, index(row), k])
    copy = T.sblock_alloc_buffer((tiles, sizes.depth, tile.rows), tile.dtype)
    run = min(_RUN, sizes.depth)
    with T.parallel(-(-sizes.depth // run)) as part:
        begin = T.Bind(tirx.min(part * run, sizes.depth - run))
        with T.serial(tiles) as t:
            m = start(t)
            with T.serial(run) as step, T.vectorized(tile.rows) as row:
                value = rounded(left.read(first, m + row, begin + step), tile.dtype)
                T.buffer_store(copy, value, [t, begin + step, row])
    return lambda t: lambda row, k: tirx.BufferLoad(copy, [t, k, index(row)])


def _pack(
    depth: int,
    tile: Tile,
    columns: _Columns,
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
    tile: Tile, columns: _Columns, start: tuple[ir.Expr, ir.Expr, ir.Expr], ahead: Read
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
    columns: _Columns,
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
    columns: _Columns,
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
