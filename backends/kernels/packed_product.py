"""Matrix products in float16, of operands that are rounded as they are packed.

`C[n, m, p] = sum over k of a(n, m, k) * b(n, k, p)` as in `backends/kernels/panel_product.py`, but
nothing is read where it lies: a task packs some panels of the right operand, and then the rows of
each tile once for all of these.
"""

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.half_runs import multiply_into
from odtc.backends.kernels.panel_product import (
    TASKS,
    Panels,
    Read,
    Sizes,
    foresee_tile,
    pack,
    split_rows,
    store_tile,
)
from odtc.backends.kernels.places import index, size_of, unflatten
from odtc.backends.kernels.row_copy import copy_rows
from odtc.backends.kernels.tile import Machine, Tile, accumulator


def packed_product(
    sizes: Sizes,
    left: Read,
    right: Panels,
    store: Read,
    ahead: Read,
    machine: Machine,
    *,
    left_lies: bool,
    by_columns: bool = False,
) -> None:
    """Emits a product.

    Args:
        sizes: of the product.
        left: `(n, m, k)` to an element.
        right: the other operand.
        store: `(n, m, p, value)`, takes an element.
        ahead: `(n, m, p)`, prefetches what the store of an element touches.
        machine: the CPU, which has float16.
        left_lies: whether the `k` of a row of the left operand are neighbours in memory; its rows
            are, otherwise.
        by_columns: whether the neighbours of a result in memory are those in its column.
    """
    tile = machine.tile(sizes.rows, sizes.columns, "float16")
    groups, panels = _groups(sizes, tile, machine)
    tiles, splits = split_rows(sizes.rows, tile.rows, sizes.batch * groups)
    with T.parallel(sizes.batch * groups * splits) as task:
        n, group, split = unflatten(task, (sizes.batch, groups, splits))
        packed = T.sblock_alloc_buffer((panels, sizes.depth, tile.columns), tile.dtype)

        def column(panel: ir.Expr) -> ir.Expr:
            """The last panel reaches back over results that are there already."""
            last = index(max(sizes.columns - tile.columns, 0))
            return T.Bind(tirx.min((group * panels + panel) * tile.columns, last))

        with T.serial(panels) as panel:
            at = column(panel)
            pack(sizes, tile, right, n, at, packed, lambda k, j, panel=panel: [panel, k, j])
        results = accumulator(tile)
        scratch = T.sblock_alloc_buffer((tile.rows, tile.columns), "float32")
        with T.serial(tiles) as t:
            m = T.Bind(tirx.min((split * tiles + t) * tile.rows, sizes.rows - tile.rows))
            rows = copy_rows(
                tile, [sizes.depth], lambda row, k: left(n, m + row, k), side_by_side=not left_lies
            )
            with T.serial(panels) as panel:
                start = (n, m, column(panel))
                if not by_columns:
                    foresee_tile(sizes, tile, start, ahead)
                multiply_into(
                    scratch,
                    results,
                    tile,
                    [index(0)],
                    [sizes.depth],
                    rows,
                    lambda v, k: tirx.BufferLoad(packed, [panel, k, tile.span(v)]),
                )
                store_tile(sizes, tile, scratch, start, store, by_columns=by_columns)


def _groups(sizes: Sizes, tile: Tile, machine: Machine) -> tuple[int, int]:
    """Groups of panels, and panels in each: what a core has near it, and tasks enough."""
    panels = -(-sizes.columns // tile.columns)
    room = max(machine.cache_bytes // (size_of(tile.dtype) * sizes.depth * tile.columns), 1)
    groups = max(-(-panels // room), min(panels, -(-TASKS // sizes.batch)))
    each = -(-panels // groups)
    return -(-panels // each), each
