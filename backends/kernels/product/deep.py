"""Matrix products of so many terms that no panel of them stays near a core.

Such is the gradient of a dense layer's weights over thousands of tokens. Terms are cut into blocks.
The operands of each are packed as in `packed.py`, and what it adds is added to sums in
memory:

    for a strip of columns and a band of rows:
        for a block of terms:  rows ─copy→ tiles, columns ─pack→ panels: products are added to sums
        sums ─tail→ results

A band is as many rows as there is room for, in their copies and in their sums. Columns are packed
again for each band: strips are so narrow that bands are high.
"""

from dataclasses import dataclass, replace

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.places import index, size_of, unflatten
from odtc.backends.kernels.common.vectors import further, splat
from odtc.backends.kernels.product.columns import Columns
from odtc.backends.kernels.product.half_runs import add_into
from odtc.backends.kernels.product.panel import (
    evenly,
    groups_of,
    panel_bytes,
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
from odtc.backends.kernels.product.row_copy import copy_all_rows
from odtc.backends.kernels.product.tile import Machine, Tile, accumulator

# A panel that is larger than what a core has near it by less is read fast enough.
_DEEP = 2
# Panels that a core has near it, where the size of its first level is not known: one is multiplied
# by many rows.
_PANELS_NEAR = 8
# Bytes of a band's copies, and of its sums in a strip; where blocks are fitted to the first level,
# which cuts products that are not as deep.
_MOST, _MOST_FIRST = 1 << 23, 1 << 20
# Columns of a strip.
_WIDEST = 1 << 12


@dataclass(frozen=True)
class Rows:
    """The left operand of a deep product.

    Attributes:
        count: of its rows.
        depth: terms of the sum.
        read: `(m, k)` to an element.
        lies: whether the `k` of a row are neighbours in memory.
        copies: whether they are copied before they are multiplied.
    """

    count: int
    depth: int
    read: Read
    lies: bool
    copies: bool


@dataclass(frozen=True)
class _Blocks:
    """Blocks of as many terms each, one after the other.

    Attributes:
        first: term of the first one.
        count: how many.
        terms: of each.
    """

    first: int
    count: int
    terms: int


@dataclass(frozen=True)
class _Cut:
    """How a product is cut into tiles.

    Attributes:
        rows: of the product.
        columns: of the product.
        tile: its shape.
        panels: of a strip, side by side.
        in_band: tiles of a band, one above the other.
        strip, band: where they are.
    """

    rows: int
    columns: Columns
    tile: Tile
    panels: int
    in_band: int
    strip: ir.Expr
    band: ir.Expr

    def row(self, t: ir.Expr) -> ir.Expr:
        """The first row of a tile; the last one reaches back over results that are there."""
        last = index(self.rows - self.tile.rows)
        return T.Bind(tirx.min((self.band * self.in_band + t) * self.tile.rows, last))

    def column(self, panel: ir.Expr) -> ir.Expr:
        """The first column of a panel of the strip."""
        return self.columns.start(self.tile, self.strip * self.panels + panel)


def is_deep(depth: int, tile: Tile, machine: Machine) -> bool:
    """Whether sums of so many terms are cut into blocks."""
    if machine.first_bytes:
        return _least_blocks(depth, tile, machine) > 1
    return panel_bytes(depth, tile) > _DEEP * machine.near


def _least_blocks(depth: int, tile: Tile, machine: Machine) -> int:
    """Blocks of terms, at least, of which a panel stays near a core.

    In the first level, a panel has half of it at most, and with the rows of a tile three quarters:
    high tiles would push it out.
    """
    panel = panel_bytes(depth, tile)
    if not machine.first_bytes:
        return -(-panel * _PANELS_NEAR // machine.near)
    rows = depth * tile.rows * size_of(tile.dtype)
    most = machine.first_bytes * 3 // 2
    return max(-(-panel // machine.first_bytes), -(-(panel + rows) // most))


def deep_product(
    left: Rows, columns: Columns, right: Panels, results: Results, tile: Tile, machine: Machine
) -> None:
    """Emits a product.

    Args:
        left: one operand.
        columns: of the product.
        right: the other operand.
        results: of the product.
        tile: its shape.
        machine: the CPU.
    """
    blocks = _blocks(left.depth, tile, machine, max(right.unit, 1))
    strips, panels = evenly(columns.total, tile.columns, _WIDEST)
    row_bytes = max(blocks[0].terms * size_of(tile.dtype), panels * tile.columns * 4)
    most = _MOST_FIRST if machine.first_bytes else _MOST
    bands, in_band = evenly(left.count, tile.rows, most // row_bytes)
    with T.grid(strips, bands) as (strip, band):
        cut = _Cut(left.count, columns, tile, panels, in_band, strip, band)
        sums = T.sblock_alloc_buffer((in_band, panels, tile.rows, tile.columns), "float32")
        with T.parallel(in_band) as t, T.serial(panels) as panel, T.serial(tile.rows) as row:
            for vector in range(tile.vectors):
                zero = splat(tirx.const(0.0, "float32"), tile.lanes)
                T.buffer_store(sums, zero, [t, panel, row, tile.span(vector)])
        for each in blocks:
            with T.serial(each.count) as number:
                start = T.Bind(each.first + number * each.terms)
                block = replace(left, depth=each.terms, read=_from(left.read, start))
                shifted = replace(right, read=_behind(right.read, start))
                _add_block(block, shifted, cut, machine, sums)
        _store(cut, machine, sums, results)


def _add_block(left: Rows, right: Panels, cut: _Cut, machine: Machine, sums: tirx.Buffer) -> None:
    """Emits what a block of terms adds to the sums of a band."""
    tile = cut.tile
    copies = None
    if left.copies:
        shape = (cut.in_band, left.depth)
        copies = copy_all_rows(tile, shape, cut.row, left.read, side_by_side=not left.lies)
    groups, panels = groups_of(left.depth, 1, cut.panels * tile.columns, tile, machine)
    tiles, splits = split_rows(cut.in_band * tile.rows, tile.rows, groups, machine.tasks)
    with T.parallel(groups * splits) as task:
        group, split = unflatten(task, (groups, splits))
        packed = T.sblock_alloc_buffer((panels, left.depth, tile.columns), tile.dtype)
        # Nothing is done twice here, as it is added.
        first, first_tile = group * panels, split * tiles
        wide = T.Bind(tirx.min(index(panels), cut.panels - first))
        high = T.Bind(tirx.min(index(tiles), cut.in_band - first_tile))
        with T.serial(wide) as panel:
            start = index(0), cut.column(first + panel)
            pack(left.depth, tile, cut.columns, right, start, (packed, panel))
        registers = accumulator(tile)

        def rows_of(t: ir.Expr) -> tuple[ir.Expr, Read]:
            number = T.Bind(first_tile + t)
            m = cut.row(number)
            return number, copies(number) if copies else lambda row, k: left.read(m + row, k)

        def add(rows: tuple[ir.Expr, Read], panel: ir.Expr) -> None:
            number, read = rows
            add_into(
                sums,
                registers,
                tile,
                lambda row, v: [number, first + panel, index(row), tile.span(v)],
                [left.depth],
                read,
                lambda v, k: tirx.BufferLoad(packed, [panel, k, tile.span(v)]),
            )

        # The first level has room for a panel, the second for the rows of all tiles.
        below = tiles_below(left.depth, tile, machine) if machine.first_bytes else tiles
        each_tile(high, wide, min(below, tiles), rows_of, add)


def _store(cut: _Cut, machine: Machine, sums: tirx.Buffer, results: Results) -> None:
    """Emits the stores of a band's results."""
    tile = cut.tile
    tiles, splits = split_rows(cut.in_band * tile.rows, tile.rows, 1, machine.tasks)
    with T.parallel(splits) as split:
        scratch = T.sblock_alloc_buffer((tile.rows, tile.columns), "float32")
        with T.serial(tirx.min(index(tiles), cut.in_band - split * tiles)) as t:
            number = split * tiles + t
            m = cut.row(number)
            with T.serial(cut.panels) as panel:
                start = index(0), m, cut.column(panel)
                foresee_tile(tile, cut.columns, start, results)
                with T.serial(tile.rows) as row:
                    for vector in range(tile.vectors):
                        value = tirx.BufferLoad(sums, [number, panel, row, tile.span(vector)])
                        T.buffer_store(scratch, value, [row, tile.span(vector)])
                store_tile(tile, cut.columns, scratch, start, results)


def _blocks(depth: int, tile: Tile, machine: Machine, unit: int) -> list[_Blocks]:
    """Blocks of which a panel is near a core: as even as can be, else with a shorter last one.

    Each begins at a multiple of a unit, which the depth is one of.
    """
    least = _least_blocks(depth, tile, machine)
    even = next((n for n in range(least, 2 * least) if depth % (n * unit) == 0), 0)
    if even:
        return [_Blocks(0, even, depth // even)]
    terms = -(-depth // (least * unit)) * unit
    whole, rest = divmod(depth, terms)
    blocks = [_Blocks(0, whole, terms)]
    return [*blocks, _Blocks(whole * terms, 1, rest)] if rest else blocks


def _from(read: Read, start: ir.Expr) -> Read:
    return lambda m, k: read(m, start + k)


def _behind(read: Read, start: ir.Expr) -> Read:
    return lambda n, k, p: read(n, further(k, start), p)
