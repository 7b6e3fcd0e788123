"""Convolutions of one tap, and their gradients, of tensors whose channels are last.

All pixels of all samples are the rows of one dense matrix, whatever the size of an image; vectors
run along channels, which fill them where an image's 49 positions do not.
"""

import math
from collections.abc import Sequence

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.places import divisors, index, load, rounded, size_of, unflatten
from odtc.backends.kernels.product.columns import Columns
from odtc.backends.kernels.product.fused import Product
from odtc.backends.kernels.product.half_runs import add_into
from odtc.backends.kernels.product.loops import matrix_product
from odtc.backends.kernels.product.panel import ProductSizes, split_rows
from odtc.backends.kernels.product.panels import Panels, Read, Results, pack, store_tile
from odtc.backends.kernels.product.tile import Machine, Tile, accumulator

# Pixels of a block that make adding to sums in memory cheap; blocks that are worth a trial.
_FEW_PIXELS, _BLOCKS = 32, 8


def forward(product: Product, machine: Machine) -> None:
    """Emits `y[p, m] = sum over c of x[p, c] * w[m, c]`."""
    x, w = product.operands
    pixels, channels, rows = *_matrix(x), int(w.shape[0])
    matrix_product(
        ProductSizes(1, pixels, channels, rows),
        _pixel(x),
        Panels(lambda _, c, m: load(w, _weight(w, m, c)), False, rows),
        _stores(product),
        machine,
        left_lies=True,
    )


def data_gradient(product: Product, machine: Machine) -> None:
    """Emits `dx[p, c] = sum over m of dy[p, m] * w[m, c]`."""
    dy, w = product.operands
    pixels, rows, channels = *_matrix(dy), int(w.shape[1])
    matrix_product(
        ProductSizes(1, pixels, rows, channels),
        _pixel(dy),
        Panels(lambda _, m, c: load(w, _weight(w, m, c)), True, channels),
        _stores(product),
        machine,
        left_lies=True,
    )


def weight_gradient(product: Product, machine: Machine) -> None:
    """Emits `dw[m, c] = sum over p of dy[p, m] * x[p, c]`.

    The long sum is cut into blocks of pixels. Of the tensor with more channels panels are packed,
    the other one is read where it lies, once for each panel; sums between blocks stay in memory.
    """
    x, dy = product.operands
    is_swapped = _matrix(x)[1] < _matrix(dy)[1]
    wide, narrow = (dy, x) if is_swapped else (x, dy)
    (pixels, channels), (_, rows) = _matrix(wide), _matrix(narrow)
    image, adjoint, dw, first = _pixel(wide), _pixel(narrow), product.result, index(0)
    dtype = machine.dtype(pixels)
    tile, columns = machine.tile(rows, channels, dtype), Columns(1, channels)
    panels, block = -(-channels // tile.columns), _block(pixels, tile, machine)
    tiles, splits = split_rows(rows, tile.rows, panels, machine.tasks)

    def store(_: ir.Expr, m: ir.Expr, c: ir.Expr, value: ir.Expr) -> None:
        # Nothing is fused after the gradient of a weight.
        T.buffer_store(dw, value, _weight(dw, *((c, m) if is_swapped else (m, c))))

    with T.parallel(panels * splits) as task:
        panel, split = unflatten(task, (panels, splits))
        packed = T.sblock_alloc_buffer((1, block, tile.columns), dtype)
        sums = T.sblock_alloc_buffer((tiles, tile.rows, tile.columns), "float32")
        scratch = T.sblock_alloc_buffer((tile.rows, tile.columns), "float32")
        with T.grid(tiles, tile.rows, tile.columns) as at:
            T.buffer_store(sums, tirx.const(0.0, "float32"), list(at))
        # The last panel and the last tile reach back over results that are there already.
        c = T.Bind(tirx.min(panel * tile.columns, index(max(channels - tile.columns, 0))))

        def row_of(t: ir.Expr) -> ir.Expr:
            return T.Bind(tirx.min((split * tiles + t) * tile.rows, rows - tile.rows))

        with T.serial(pixels // block) as number:
            start = number * block
            right = Panels(lambda n, k, c: image(n, start + k, c), True)
            pack(block, tile, columns, right, (first, c), (packed, first))
            with T.serial(tiles) as t:
                m = row_of(t)
                add_into(
                    sums,
                    accumulator(tile),
                    tile,
                    lambda row, v: [t, index(row), tile.span(v)],
                    [block],
                    lambda row, k: rounded(adjoint(first, start + k, m + row), dtype),
                    lambda v, k: tirx.BufferLoad(packed, [first, k, tile.span(v)]),
                )
        with T.serial(tiles) as t:
            with T.grid(tile.rows, tile.columns) as (row, j):
                T.buffer_store(scratch, tirx.BufferLoad(sums, [t, row, j]), [row, j])
            results = Results(store, store, by_columns=is_swapped)
            store_tile(tile, columns, scratch, (first, row_of(t), c), results)


def _block(pixels: int, tile: Tile, machine: Machine) -> int:
    """Pixels of a block, which divide all of them: a panel of them has room near a core."""
    room = machine.near // (16 * size_of(tile.dtype) * tile.columns)
    possible = divisors(pixels)
    usual = max((count for count in possible if count <= room), default=pixels)
    usual = pixels if usual < _FEW_PIXELS else usual
    (block,) = machine.decide("block", [(count,) for count in possible[-_BLOCKS:]], (usual,))
    return block


def _matrix(tensor: tirx.Buffer) -> tuple[int, int]:
    """Pixels and channels."""
    *pixels, channels = (int(size) for size in tensor.shape)
    return math.prod(pixels), channels


def _pixel(tensor: tirx.Buffer) -> Read:
    """Returns a load by pixel and channel; pixels are counted through all samples."""
    outer = [index(0) for _ in tensor.shape[2:]]
    return lambda _, p, c: load(tensor, [*outer, p, c])


def _weight(weight: tirx.Buffer, m: ir.Expr, c: ir.Expr) -> list[ir.Expr]:
    """The index of a weight of one tap: its last dimensions are one, and may count channels."""
    return [m, *(index(0) for _ in weight.shape[2:]), c]


def _stores(product: Product) -> Results:
    """Results by pixel and channel."""
    sizes: Sequence[int] = [int(size) for size in product.result.shape[:-1]]
    return Results(
        lambda _, p, c, value: product.store([*unflatten(p, sizes), c], value),
        lambda _, p, c: product.ahead([*unflatten(p, sizes), c]),
    )
