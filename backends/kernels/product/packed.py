"""Matrix products of packed operands.

`C[n, m, p] = sum over k of a(n, m, k) * b(n, k, p)` as in `backends/kernels/product/panel.py`, but
the right operand is copied into panels, in which a tile reads its vectors one after the other, as
in K. Goto and R. van de Geijn, "Anatomy of high-performance matrix multiplication" (2008): read
where it lies, a panel of many terms has lines in as many places, which push each other out of
caches and are foreseen by none. A task packs as many panels as a core has room for near it; then
each tile runs over all of them. The left operand is copied where its elements are scattered, push
each other out of a cache or are rounded to float16: once for all tasks, a band of rows after the
other if it is large; or tile by tile where each matrix has its own.

Where all matrices share the left operand, as images share a weight, their columns are those of one
matrix: panels go on from one image to the next.
"""

from contextlib import nullcontext
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.places import index, size_of, unflatten
from odtc.backends.kernels.product.columns import Columns
from odtc.backends.kernels.product.deep import Rows, deep_product, is_deep
from odtc.backends.kernels.product.half_runs import multiply_into
from odtc.backends.kernels.product.panel import (
    WAYS,
    ProductSizes,
    evenly,
    groups_of,
    split_rows,
    tiles_below,
)
from odtc.backends.kernels.product.panels import (
    Panels,
    Read,
    Results,
    each_tile,
    foresee_tile,
    pack,
    store_tile,
)
from odtc.backends.kernels.product.row_copy import copy_all_rows, copy_rows
from odtc.backends.kernels.product.tile import Machine, Tile, accumulator

# Rows, terms and columns from which on copies of operands cost little.
_WORTH_A_COPY = 16
# Bytes of rows that are copied for all tasks: they are a workspace for as long as these run.
_MOST_COPIED = 1 << 22


@dataclass(frozen=True)
class LeftOperand:
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


def is_worth_packing(sizes: ProductSizes) -> bool:
    """Whether each element of either operand is multiplied often, in sums that are not short."""
    return min(sizes.rows, sizes.depth, sizes.batch * sizes.columns) >= _WORTH_A_COPY


def packed_product(
    sizes: ProductSizes,
    left: LeftOperand,
    right: Panels,
    results: Results,
    machine: Machine,
    dtype: str,
    *,
    once: Tile | None = None,
) -> None:
    """Emits a product.

    Args:
        sizes: of the product.
        left: one operand.
        right: the other one.
        results: of the product.
        machine: the CPU.
        dtype: what is multiplied.
        once: a tile that rows and columns are multiples of, or one that has all columns, where no
            result may be stored twice.
    """
    columns = Columns(sizes.batch if left.shared else 1, sizes.columns)
    matrices = 1 if left.shared else sizes.batch
    tile = once or machine.tile(sizes.rows, columns.total, dtype)
    is_copied = dtype == "float16" or _is_copied(left, tile, machine)
    if not once and matrices == 1 and is_deep(sizes.depth, tile, machine):
        n = index(0)
        rows = Rows(sizes.rows, sizes.depth, lambda m, k: left.read(n, m, k), left.lies, is_copied)
        deep_product(rows, columns, right, results, tile, machine)
        return
    cut = _exactly if once else _as_it_is
    groups, panels = cut(
        *groups_of(sizes.depth, matrices, columns.total, tile, machine),
        -(-columns.total // tile.columns),
    )
    copies_all = is_copied and left.shared
    bands, in_band = 1, -(-sizes.rows // tile.rows)
    if copies_all:
        row_bytes = sizes.depth * size_of(dtype)
        bands, in_band = cut(*evenly(sizes.rows, tile.rows, _MOST_COPIED // row_bytes), in_band)
    in_split, splits = split_rows(in_band * tile.rows, tile.rows, matrices * groups, machine.tasks)
    splits, in_split = cut(splits, in_split, in_band)
    with T.serial(bands) if bands > 1 else nullcontext(index(0)) as band:

        def first_row(t: ir.Expr) -> ir.Expr:
            """The last tile reaches back over results that are there already, as last ones do."""
            return T.Bind(tirx.min((band * in_band + t) * tile.rows, sizes.rows - tile.rows))

        copies = None
        if copies_all:
            copies = copy_all_rows(
                tile,
                (in_band, sizes.depth),
                first_row,
                lambda m, k: left.read(index(0), m, k),
                side_by_side=not left.lies,
            )
        with T.parallel(matrices * groups * splits) as task:
            n, group, split = unflatten(task, (matrices, groups, splits))
            packed = T.sblock_alloc_buffer((panels, sizes.depth, tile.columns), dtype)

            def column(panel: ir.Expr, group: ir.Expr = group) -> ir.Expr:
                return columns.start(tile, group * panels + panel)

            with T.serial(panels) as panel:
                pack(sizes.depth, tile, columns, right, (n, column(panel)), (packed, panel))
            registers = accumulator(tile)
            scratch = T.sblock_alloc_buffer((tile.rows, tile.columns), "float32")

            def rows_of(t: ir.Expr, n: ir.Expr = n, split: ir.Expr = split) -> tuple[ir.Expr, Read]:
                number = T.Bind(tirx.min(split * in_split + t, index(in_band - 1)))
                m = first_row(number)
                if copies:
                    return m, copies(number)
                return m, _rows(left, tile, sizes.depth, (n, m), is_copied=is_copied)

            def write(rows: tuple[ir.Expr, Read], panel: ir.Expr, n: ir.Expr = n) -> None:
                (m, read), at = rows, column(panel)
                foresee_tile(tile, columns, (n, m, at), results)
                multiply_into(
                    scratch,
                    registers,
                    tile,
                    [index(0)],
                    [sizes.depth],
                    read,
                    lambda v, k: tirx.BufferLoad(packed, [panel, k, tile.span(v)]),
                )
                store_tile(tile, columns, scratch, (n, m, at), results)

            # Rows that a tile copies for itself are copied once for all panels.
            most = 1 if is_copied and not copies_all else in_split
            below = min(tiles_below(sizes.depth, tile, machine), most)
            each_tile(in_split, panels, below, rows_of, write)


def _rows(
    left: LeftOperand, tile: Tile, depth: int, start: tuple[ir.Expr, ir.Expr], *, is_copied: bool
) -> Read:
    """The rows of a tile, from a row of a matrix on; emits their copy if they are copied."""
    n, m = start

    def row_of(row: int | ir.Expr, k: ir.Expr) -> ir.Expr:
        return left.read(n, m + row, k)

    if not is_copied:
        return row_of
    return copy_rows(tile, [depth], row_of, side_by_side=not left.lies)


def _as_it_is(parts: int, each: int, total: int) -> tuple[int, int]:
    """Parts, and how many tiles each has: the last ones may be done twice."""
    del total
    return parts, each


def _exactly(parts: int, each: int, total: int) -> tuple[int, int]:
    """Parts of as many tiles each that are `total` together, at most as many as were wanted."""
    del parts
    each = next(n for n in range(min(each, total), 0, -1) if total % n == 0)
    return total // each, each


def _is_copied(left: LeftOperand, tile: Tile, machine: Machine) -> bool:
    """Whether rows of the left operand are copied before they are multiplied."""
    usual = not left.lies or (left.collides and tile.rows > WAYS)
    (copied,) = machine.decide("copy", [(1,), (0,)], (int(usual),))
    return bool(copied)
