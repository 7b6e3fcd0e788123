"""Products of two matrices, either of which may be read transposed.

The kernel says what it computes, with a mark; `backends/kernels/matmul_loops.py` writes its loops.
"""

from tvm import relax, te, tirx

from odtc.backends.kernels.operand import placeholder, shape_of
from odtc.core.kernel_marks import FUSABLE, PATTERN, PRODUCT


def matmul(
    left: relax.Expr, right: relax.Expr, trans_left: bool, trans_right: bool
) -> tirx.PrimFunc:
    """The kernel, from the operands, as stored, and whether each is read transposed.

    Operands are float32 or float16, the result is float32.
    """
    a, b = placeholder(left, "left"), placeholder(right, "right")
    rows, depth = shape_of(left)[::-1] if trans_left else shape_of(left)
    columns = shape_of(right)[0 if trans_right else 1]
    k = te.reduce_axis((0, tirx.const(depth, "int64")), "k")

    def term(m: tirx.Expr, p: tirx.Expr) -> tirx.Expr:
        return (a[k, m] if trans_left else a[m, k]).astype("float32") * (
            b[p, k] if trans_right else b[k, p]
        ).astype("float32")

    block = te.compute(
        [tirx.const(size, "int64") for size in (rows, columns)],
        lambda m, p: te.sum(term(m, p), axis=k),
        name="product",
        attrs={PRODUCT: ["matmul", int(trans_left), int(trans_right)]},
    )
    function = te.create_prim_func([a, b, block]).without_attr("global_symbol")
    return function.with_attr(PATTERN, FUSABLE)
