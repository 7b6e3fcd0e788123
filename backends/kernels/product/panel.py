"""Matrix products whose right operand is read where it lies, or packed in panels.

`C[n, m, p] = sum over k of a(n, m, k) * b(n, k, p)`. Of the left operand a tile reads few rows, one
element after the other, where they lie; a tile's rows are copied only where they would push each
other out of a cache. The right one is read in vectors along `p`; where it does not lie so, a panel
of it is copied first.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.places import CACHE_LINE, index, size_of, unflatten
from odtc.backends.kernels.product.columns import Columns
from odtc.backends.kernels.product.panels import (
    Panels,
    Read,
    Results,
    foresee_tile,
    pack,
    store_tile,
)
from odtc.backends.kernels.product.tile import Machine, Tile, accumulator, keep, multiply


@dataclass(frozen=True)
class ProductSizes:
    """Sizes of a product: matrices, rows, terms of the sum and columns of each."""

    batch: int
    rows: int
    depth: int
    columns: int


def collides(pitch: int) -> bool:
    """Whether rows so many elements apart fall into the same few lines of a cache."""
    lines, rest = divmod(pitch * 4, CACHE_LINE)
    return pitch > 0 and not rest and lines % _SETS == 0


def panel_product(
    sizes: ProductSizes,
    left: Read,
    right: Panels,
    results: Results,
    machine: Machine,
    *,
    left_pitch: int = 0,
) -> None:
    """Emits a product.

    Args:
        sizes: of the product.
        left: `(n, m, k)` to an element.
        right: the other operand.
        results: of the product.
        machine: the CPU.
        left_pitch: elements from a row of the left operand to the next, where its `k` are
            neighbours, else zero.
    """
    tile, columns = machine.tile(sizes.rows, sizes.columns), Columns(1, sizes.columns)
    panels = -(-sizes.columns // tile.columns)
    tiles, splits = split_rows(sizes.rows, tile.rows, sizes.batch * panels, machine.tasks)
    with T.parallel(sizes.batch * panels * splits) as task:
        n, panel, split = unflatten(task, (sizes.batch, panels, splits))
        # The last panel and the last tile reach back over results that are there already.
        last = max(sizes.columns - tile.columns, 0)
        at = T.Bind(tirx.min(panel * tile.columns, index(last)))
        vector = _vectors(sizes.depth, tile, columns, right, (n, at))
        registers = accumulator(tile)
        scratch = T.sblock_alloc_buffer((tile.rows, tile.columns), "float32")
        with T.serial(tiles) as t:
            m = T.Bind(tirx.min((split * tiles + t) * tile.rows, sizes.rows - tile.rows))
            element = near_rows(sizes.depth, tile, lambda row, k: left(n, m + row, k), left_pitch)
            foresee_tile(tile, columns, (n, m, at), results)
            multiply(registers, tile, [sizes.depth], element, vector)
            keep(registers, scratch, tile, 0)
            store_tile(tile, columns, scratch, (n, m, at), results)


def near_rows(depth: int, tile: Tile, left: Read, pitch: int) -> Read:
    """The rows of a tile; emits their copy where they would push each other out of a cache."""
    if tile.rows <= WAYS or not collides(pitch):
        return left
    rows = T.sblock_alloc_buffer((tile.rows, depth + tile.lanes), "float32")
    with T.grid(tile.rows, depth) as (row, k):
        T.buffer_store(rows, left(row, k), [row, k])
    return lambda row, k: tirx.BufferLoad(rows, [index(row), k])


def _vectors(
    depth: int, tile: Tile, columns: Columns, right: Panels, start: tuple[ir.Expr, ir.Expr]
) -> Callable[[int, ir.Expr], ir.Expr]:
    """Returns a load of the right operand by the tile's vector and `k`; emits a copy if needed."""
    n, at = start
    is_read = right.is_dense and columns.total >= tile.columns and not collides(right.pitch)
    if is_read and not right.unit:
        return lambda v, k: right.read(n, k, tile.span(v, at))
    panel = T.sblock_alloc_buffer((1, depth, tile.columns), "float32")
    pack(depth, tile, columns, right, start, (panel, index(0)))
    return lambda v, k: tirx.BufferLoad(panel, [index(0), k, tile.span(v)])


# Sets of a usual first-level cache, and lines in each.
_SETS, WAYS = 64, 8


def split_rows(rows: int, tile_rows: int, tasks: int, wanted: int) -> tuple[int, int]:
    """Tiles of each part of the rows, and parts: only as many as make so many tasks."""
    tiles = -(-rows // tile_rows)
    parts = min(tiles, -(-wanted // tasks))
    each = -(-tiles // parts)
    return each, -(-tiles // each)


def groups_of(
    depth: int, matrices: int, columns: int, tile: Tile, machine: Machine
) -> tuple[int, int]:
    """Groups of panels, and panels in each: what a core has near it, and tasks enough."""
    panels = -(-columns // tile.columns)
    room = max(machine.near // (size_of(tile.dtype) * depth * tile.columns), 1)
    groups = max(-(-panels // room), min(panels, -(-machine.tasks // matrices)))
    each = -(-panels // groups)
    return -(-panels // each), each


def tiles_below(depth: int, tile: Tile, machine: Machine) -> int:
    """Tiles, one above the other, that are multiplied by a panel before the next panel is.

    The panel is then read from the first-level cache, and the tiles' rows from the second, where
    there must be room for them. One, if no panel fits, or if it is not known what does.
    """
    if panel_bytes(depth, tile) > machine.first_bytes:
        return 1
    return max(machine.near // 2 // (size_of(tile.dtype) * depth * tile.rows), 1)


def panel_bytes(depth: int, tile: Tile) -> int:
    """Bytes of a panel of so many terms."""
    return depth * tile.columns * size_of(tile.dtype)


def evenly(total: int, size: int, most: int) -> tuple[int, int]:
    """Parts of as many tiles of a size as can be within so much, and tiles in each."""
    tiles = -(-total // size)
    parts = -(-tiles // max(most // size, 1))
    return parts, -(-tiles // parts)
