"""The loops of a matrix product's kernel.

Vectors run along the columns of the result. Where the right operand is transposed, they are not
neighbours: panels of it are transposed, or, for few rows, vectors run along those, or along the
sums. Operands are packed where that is worth it; where the CPU has float16, such products may
multiply that.
"""

import math
from collections.abc import Callable
from functools import partial

from tvm import ir, tirx

from odtc.backends.kernels.common.places import load, unflatten
from odtc.backends.kernels.common.quantised import Quantised
from odtc.backends.kernels.product.deep import is_deep
from odtc.backends.kernels.product.fused import Product
from odtc.backends.kernels.product.once import product_once
from odtc.backends.kernels.product.packed import LeftOperand, is_worth_packing, packed_product
from odtc.backends.kernels.product.panel import WAYS, ProductSizes, collides, panel_product
from odtc.backends.kernels.product.panels import Panels, Read, Results
from odtc.backends.kernels.product.row import is_of_rows, row_product
from odtc.backends.kernels.product.thin import is_thin, thin_product
from odtc.backends.kernels.product.tile import Machine


def _matmul(product: Product, machine: Machine, *, once: bool = False) -> None:
    trans_left, trans_right = map(bool, product.numbers)
    a, b = product.operands
    *batch, rows, depth = _shape(a, trans_left)
    columns = _shape(b, trans_right)[-1]
    count = math.prod(batch)

    def left(n: ir.Expr, m: ir.Expr, k: ir.Expr) -> ir.Expr:
        return load(a, [*unflatten(n, batch), *((k, m) if trans_left else (m, k))])

    def right(n: ir.Expr, k: ir.Expr, p: ir.Expr) -> ir.Expr:
        return load(b, [*unflatten(n, batch), *((p, k) if trans_right else (k, p))])

    def store(n: ir.Expr, m: ir.Expr, p: ir.Expr, value: ir.Expr) -> None:
        product.store([*unflatten(n, batch), m, p], value)

    def ahead(n: ir.Expr, m: ir.Expr, p: ir.Expr) -> None:
        product.ahead([*unflatten(n, batch), m, p])

    sizes = ProductSizes(count, rows, depth, columns)
    if isinstance(b, Quantised):
        panels = Panels(right, not trans_right, columns, b.unit)
        coded_product(sizes, left, panels, Results(store, ahead), machine, left_lies=not trans_left)
    elif trans_right and not trans_left and is_of_rows(sizes, machine):
        row_product(sizes, left, right, Results(store, ahead), machine)
    elif _runs_along_rows(trans_left, trans_right, rows, columns):
        matrix_product(
            ProductSizes(count, columns, depth, rows),
            lambda n, p, k: right(n, k, p),
            Panels(lambda n, k, m: left(n, m, k), trans_left, rows),
            Results(
                lambda n, p, m, value: store(n, m, p, value),
                lambda n, p, m: ahead(n, m, p),
                by_columns=True,
            ),
            machine,
            left_lies=True,
        )
    else:
        matrix_product(
            sizes,
            left,
            Panels(right, not trans_right, columns),
            Results(store, ahead, once=once),
            machine,
            left_lies=not trans_left,
        )


def matrix_product(
    sizes: ProductSizes,
    left: Read,
    right: Panels,
    results: Results,
    machine: Machine,
    *,
    left_lies: bool,
) -> None:
    """Emits a product of packed operands, or of such that are read where they lie."""
    dtype = machine.dtype(sizes.depth, sizes.rows, sizes.columns)
    if dtype == "float16" or (sizes.batch == 1 and is_worth_packing(sizes)):
        rows = LeftOperand(
            left, left_lies, left_lies and collides(sizes.depth), shared=sizes.batch == 1
        )
        if results.once and dtype == "float32":
            product_once(sizes, rows, right, results, machine)
        else:
            packed_product(sizes, rows, right, results, machine, dtype)
        return
    if is_thin(sizes, right, machine):
        thin_product(sizes, left, right, results, machine)
        return
    left_pitch = sizes.depth if left_lies else 0
    panel_product(sizes, left, right, results, machine, left_pitch=left_pitch)


def coded_product(
    sizes: ProductSizes,
    left: Read,
    right: Panels,
    results: Results,
    machine: Machine,
    *,
    left_lies: bool,
) -> None:
    """Emits a product whose right operand is packed however few rows there are.

    Each of its elements is computed once, in vectors; see `matrix_product`.
    """
    tile = machine.tile(sizes.rows, sizes.columns)
    if sizes.rows <= tile.rows and not is_deep(sizes.depth, tile, machine):
        # Of one tile of rows, each panel is read once: there is one at a time.
        panel_product(sizes, left, right, results, machine)
        return
    collide = left_lies and collides(sizes.depth)
    operand = LeftOperand(left, left_lies, collide, shared=True)
    dtype = machine.dtype(sizes.depth, sizes.rows, sizes.columns)
    packed_product(sizes, operand, right, results, machine, dtype)


# Rows of a product that make transposed panels of its right operand cheap.
_WORTH_A_COPY = 64


def _runs_along_rows(trans_left: bool, trans_right: bool, rows: int, columns: int) -> bool:
    """Whether vectors run along the rows of the result.

    They are stored element by element, each into another row. Where these push each other out of a
    cache, as more rows than it has ways can, that takes longer than the product.
    """
    is_short = rows <= WAYS or (rows < _WORTH_A_COPY and not collides(columns))
    return trans_right and (trans_left or is_short)


MATMUL_LOOPS: dict[str, Callable[[Product, Machine], None]] = {
    "matmul": _matmul,
    "matmul-onto": partial(_matmul, once=True),
}


def _shape(buffer: tirx.Buffer, transposed: bool) -> list[int]:
    sizes = [int(size) for size in buffer.shape]
    return [*sizes[:-2], sizes[-1], sizes[-2]] if transposed else sizes
