"""Packed products of which each result is stored once, so that it may lie over what it is added to.

Tiles of other products reach back over results that are there already, and panels of one task over
those of another. Where a gradient grows over several products, each sum takes the memory of the one
before it, so that no element may be read after it was stored. Rows and columns that full tiles
leave over are products of their own here.
"""

from dataclasses import replace

from tvm import ir

from odtc.backends.kernels.product.packed import LeftOperand, packed_product
from odtc.backends.kernels.product.panel import ProductSizes
from odtc.backends.kernels.product.panels import Panels, Read, Results
from odtc.backends.kernels.product.tile import Machine, Tile


def product_once(
    sizes: ProductSizes, left: LeftOperand, right: Panels, results: Results, machine: Machine
) -> None:
    """Emits a product of float32 matrices; see `packed_product`."""
    tile = machine.tile_of_sums(sizes.rows, sizes.columns)
    for row, rows, height in _cuts(sizes.rows, tile.rows):
        for column, columns, width in _cuts(sizes.columns, tile.columns):
            packed_product(
                replace(sizes, rows=rows, columns=columns),
                replace(left, read=_moved(left.read, 1, row)),
                replace(right, read=_moved(right.read, 2, column)),
                replace(
                    results,
                    store=_moved(_moved(results.store, 1, row), 2, column),
                    ahead=_moved(_moved(results.ahead, 1, row), 2, column),
                ),
                machine,
                tile.dtype,
                once=Tile(height, -(-width // tile.lanes), tile.lanes),
            )


def _cuts(total: int, size: int) -> list[tuple[int, int, int]]:
    """Start, length and size of tiles: of all full tiles, and of what they leave over."""
    whole = total // size * size
    cuts = [(0, whole, size), (whole, total - whole, total - whole)]
    return [cut for cut in cuts if cut[1]]


def _moved(read: Read, place: int, start: int) -> Read:
    """The same with one of its indices counted from there."""

    def moved(*at: ir.Expr) -> ir.Expr:
        return read(*at[:place], at[place] + start, *at[place + 1 :])

    return moved if start else read
