"""The loops of a matrix product's kernel.

Vectors run along the dimension in which an operand is read as it lies: the columns of the right
operand, or, where that one is transposed, the rows of the left one, so that weights are never
copied.
"""

from collections.abc import Callable, Sequence

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.convolution_loops import load
from odtc.backends.kernels.fused import Tail
from odtc.backends.kernels.panel_product import Panels, Sizes, panel_product
from odtc.backends.kernels.tile import Machine


def _matmul(
    numbers: Sequence[int],
    operands: Sequence[tirx.Buffer],
    result: tirx.Buffer,
    tail: Tail,
    machine: Machine,
) -> None:
    trans_left, trans_right = map(bool, numbers)
    a, b = operands
    rows, depth = _shape(a, trans_left)
    columns = _shape(b, trans_right)[1]

    def left(m: ir.Expr, k: ir.Expr) -> ir.Expr:
        return load(a, [k, m] if trans_left else [m, k])

    def right(k: ir.Expr, p: ir.Expr) -> ir.Expr:
        return load(b, [p, k] if trans_right else [k, p])

    def store(m: ir.Expr, p: ir.Expr, value: ir.Expr) -> None:
        T.buffer_store(result, tail([m, p], value), [m, p])

    if trans_right:
        panel_product(
            Sizes(1, columns, depth, rows),
            lambda _, p, k: right(k, p),
            Panels(lambda _, k, m: left(m, k), trans_left, rows),
            lambda _, p, m, value: store(m, p, value),
            machine,
            left_pitch=depth,
            by_columns=True,
        )
    else:
        panel_product(
            Sizes(1, rows, depth, columns),
            lambda _, m, k: left(m, k),
            Panels(lambda _, k, p: right(k, p), True, columns),
            lambda _, m, p, value: store(m, p, value),
            machine,
            left_pitch=0 if trans_left else depth,
        )


MATMUL_LOOPS: dict[str, Callable[..., None]] = {"matmul": _matmul}


def _shape(buffer: tirx.Buffer, transposed: bool) -> list[int]:
    sizes = [int(size) for size in buffer.shape]
    return sizes[::-1] if transposed else sizes
