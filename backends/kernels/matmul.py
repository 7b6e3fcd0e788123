"""Products of two matrices, either of which may be read transposed, as packed products."""

from collections.abc import Callable

from tvm import relax, tirx

from odtc.backends.kernels.operand import placeholder, shape_of
from odtc.backends.kernels.packed_gemm import Machine, product_kernel

Product = Callable[[relax.Expr, relax.Expr, bool, bool], tirx.PrimFunc]


def matmul_on(machine: Machine) -> Product:
    """How a CPU multiplies matrices: from the operands, as stored, and transposes to the kernel.

    Operands are float32 or float16, the result is float32.
    """

    def matmul(
        left: relax.Expr, right: relax.Expr, trans_left: bool, trans_right: bool
    ) -> tirx.PrimFunc:
        a, b = placeholder(left, "left"), placeholder(right, "right")
        rows, depth = shape_of(left)[::-1] if trans_left else shape_of(left)
        columns = shape_of(right)[0 if trans_right else 1]
        return product_kernel(
            [a, b],
            (None, rows, depth, columns),
            lambda m, k: (a[k, m] if trans_left else a[m, k]).astype("float32"),
            lambda _, k, p: (b[p, k] if trans_right else b[k, p]).astype("float32"),
            machine,
        )

    return matmul
