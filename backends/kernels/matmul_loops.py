"""The loops of a matrix product's kernel.

Vectors run along the dimension in which an operand is read as it lies: the columns of the right
operand, or, where that one is transposed, the rows of the left one, so that weights are never
copied.
"""

import math
from collections.abc import Callable

from tvm import ir, tirx

from odtc.backends.kernels.fused import Product
from odtc.backends.kernels.panel_product import Panels, Sizes, panel_product
from odtc.backends.kernels.places import load, unflatten
from odtc.backends.kernels.tile import Machine


def _matmul(product: Product, machine: Machine) -> None:
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

    if trans_right:
        panel_product(
            Sizes(count, columns, depth, rows),
            lambda n, p, k: right(n, k, p),
            Panels(lambda n, k, m: left(n, m, k), trans_left, rows),
            lambda n, p, m, value: store(n, m, p, value),
            machine,
            left_pitch=depth,
            by_columns=True,
        )
    else:
        panel_product(
            Sizes(count, rows, depth, columns),
            left,
            Panels(right, True, columns),
            store,
            machine,
            left_pitch=0 if trans_left else depth,
        )


MATMUL_LOOPS: dict[str, Callable[[Product, Machine], None]] = {"matmul": _matmul}


def _shape(buffer: tirx.Buffer, transposed: bool) -> list[int]:
    sizes = [int(size) for size in buffer.shape]
    return [*sizes[:-2], sizes[-1], sizes[-2]] if transposed else sizes
