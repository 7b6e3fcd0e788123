"""Products of two matrices, either of which may be read transposed, as packed products."""

from collections.abc import Callable

from tvm import te, tirx

from odtc.backends.kernels.packed_gemm import Machine, product_kernel

Shape = tuple[int, int]


def matmul_on(machine: Machine) -> Callable[[Shape, Shape, bool, bool], tirx.PrimFunc]:
    """How a CPU multiplies float32 matrices: from shapes and transposes to the kernel."""

    def matmul(left: Shape, right: Shape, trans_left: bool, trans_right: bool) -> tirx.PrimFunc:
        a, b = te.placeholder(left, name="left"), te.placeholder(right, name="right")
        rows, depth = left[::-1] if trans_left else left
        columns = right[0] if trans_right else right[1]
        return product_kernel(
            [a, b],
            (None, rows, depth, columns),
            lambda m, k: a[k, m] if trans_left else a[m, k],
            lambda _, k, p: b[p, k] if trans_right else b[k, p],
            machine,
        )

    return matmul
