"""Products of matrices, or of equally many, either of which may be read transposed.

The kernel says what it computes, with a mark; `backends/kernels/product/loops.py` writes its loops.
"""

from collections.abc import Sequence
from typing import Any

from tvm import ir, relax, te, tirx

from odtc.backends.kernels.common.operand import placeholder
from odtc.backends.kernels.common.quantised import quantised_operand
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
    return _fusable(a, *tensors, _product("matmul", a, b, trans_left, trans_right, **marks))


def matmul_onto(
    left: relax.Expr, right: relax.Expr, trans_left: bool, trans_right: bool
) -> tirx.PrimFunc:
    """The kernel that takes a tensor like the product behind the operands, and adds it.

    The result may lie over that tensor. As two operators, a sum of many products would be one
    kernel that reads all of them but one.
    """
    operands = placeholder(left, "left"), placeholder(right, "right")
    product = _product("matmul-onto", *operands, trans_left, trans_right)
    before = te.placeholder(product.shape, "float32", name="before")
    total = te.compute(product.shape, lambda *at: before(*at) + product(*at), name="total")
    return _fusable(*operands, before, total)


def _product(
    family: str,
    a: te.Tensor,
    b: Any,
    trans_left: bool,
    trans_right: bool,
    **marks: Any,
) -> te.Tensor:
    *batch, rows, depth = a.shape
    if trans_left:
        rows, depth = depth, rows
    columns = tirx.const(int(b.shape[-2 if trans_right else -1]), "int64")
    k = te.reduce_axis((0, depth), "k")

    def term(n: Sequence[ir.Expr], m: ir.Expr, p: ir.Expr) -> ir.Expr:
        x = a[*n, k, m] if trans_left else a[*n, m, k]
        y = b[*n, p, k] if trans_right else b[*n, k, p]
        return x.astype("float32") * y.astype("float32")

    return te.compute(
        [*batch, rows, columns],
        lambda *at: te.sum(term(at[:-2], *at[-2:]), axis=k),
        name="product",
        attrs={PRODUCT: [family, int(trans_left), int(trans_right)], **marks},
    )


def _fusable(*tensors: te.Tensor) -> tirx.PrimFunc:
    """The kernel of the last of these tensors."""
    function = te.create_prim_func(list(tensors)).without_attr("global_symbol")
    return function.with_attr(PATTERN, FUSABLE)
