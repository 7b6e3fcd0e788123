"""Products of matrices, or of equally many, either of which may be read transposed.

The kernel says what it computes, with a mark; `backends/kernels/product/loops.py` writes its loops.
"""

from collections.abc import Sequence

from tvm import ir, relax, te, tirx

from odtc.backends.kernels.common.operand import placeholder, shape_of
from odtc.backends.kernels.product.quantised import quantised_operand
from odtc.core.ir.kernel_marks import FUSABLE, PATTERN
from odtc.core.ir.product_marks import PRODUCT


def matmul(
    left: relax.Expr, right: relax.Expr, trans_left: bool, trans_right: bool
) -> tirx.PrimFunc:
    """The kernel, from the operands, as stored, and whether each is read transposed.

    Operands are float32 or float16, the result is float32. The right one may be a call of
    `dequantised`: the kernel takes its tensors, and dequantises as it reads.
    """
    a = placeholder(left, "left")
    b, tensors, marks = quantised_operand(right)
    *batch, rows, depth = shape_of(left)
    if trans_left:
        rows, depth = depth, rows
    columns = shape_of(right)[-2 if trans_right else -1]
    k = te.reduce_axis((0, tirx.const(depth, "int64")), "k")

    def term(n: Sequence[ir.Expr], m: ir.Expr, p: ir.Expr) -> ir.Expr:
        x = a[*n, k, m] if trans_left else a[*n, m, k]
        y = b[*n, p, k] if trans_right else b[*n, k, p]
        return x.astype("float32") * y.astype("float32")

    block = te.compute(
        [tirx.const(size, "int64") for size in (*batch, rows, columns)],
        lambda *at: te.sum(term(at[:-2], *at[-2:]), axis=k),
        name="product",
        attrs={PRODUCT: ["matmul", int(trans_left), int(trans_right)], **marks},
    )
    function = te.create_prim_func([a, *tensors, block]).without_attr("global_symbol")
    return function.with_attr(PATTERN, FUSABLE)
