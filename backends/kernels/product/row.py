"""Products of few rows and a matrix whose rows are the terms of sums: those of a dense layer.

`C[n, m, p] = sum over k of a(n, m, k) * b(n, k, p)`, where neighbours in `k` are so in memory.
Vectors run along the sum, and each element of `b` is read once, in the order in which it lies.
Along the rows of `a` a vector would be the emptier, the fewer of them there are.
"""

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.places import index, unflatten
from odtc.backends.kernels.product.panel import ProductSizes, split_rows
from odtc.backends.kernels.product.panels import Read, Results
from odtc.backends.kernels.product.tile import Machine
from odtc.backends.kernels.rows.passes import VECTORS, Row

# Vectors of a sum that take as long as adding up its lanes does.
_LANES_ADDED = 8


def is_of_rows(sizes: ProductSizes, machine: Machine) -> bool:
    """Whether sums along vectors take less time than sums in lanes, most of which are empty."""
    if machine.dtype(sizes.depth, sizes.rows, sizes.columns) != "float32":
        return False
    vectors = sizes.rows * (sizes.depth / machine.lanes + _LANES_ADDED)
    return sizes.rows * VECTORS <= machine.accumulators and vectors < sizes.depth


def row_product(
    sizes: ProductSizes, left: Read, right: Read, results: Results, machine: Machine
) -> None:
    """Emits a product.

    Args:
        sizes: of the product; see `is_of_rows`.
        left: `(n, m, k)` to an element.
        right: `(n, k, p)` to an element.
        results: of the product.
        machine: the CPU.
    """
    each, parts = split_rows(sizes.columns, 1, sizes.batch, machine.tasks)
    row = Row(1, sizes.depth, machine.lanes)
    with T.parallel(sizes.batch * parts) as task:
        n, part = unflatten(task, (sizes.batch, parts))
        # The last task may reach over the columns: it begins before those of the one before it end.
        first = T.Bind(tirx.min(part * each, sizes.columns - each))
        with T.serial(each) as column:
            p = T.Bind(first + column)

            def terms(_: ir.Expr, k: ir.Expr, p: ir.Expr = p) -> list[ir.Expr]:
                return [left(n, index(m), k) * right(n, k, p) for m in range(sizes.rows)]

            for m, value in enumerate(row.fold(terms, count=sizes.rows)):
                results.store(n, index(m), p, value)
