"""Matrix products read their operands transposed, where a copy would have been made.

`matmul(x, permute_dims(w))` becomes one kernel that reads `w` by columns. Gemm with `transB`, its
two gradients and every linear layer have this form, and a transposed copy of a weight would be a
second copy of the parameter. Only operands of rank 2 are rewritten.
"""

from dataclasses import dataclass
from typing import ClassVar

import tvm
from tvm import relax, te
from tvm.relax.expr_functor import PyExprMutator, mutator

from odtc.passes.contract import Pass


def is_call(expression: relax.Expr | None, op_name: str) -> bool:
    """Whether the expression calls that Relax operator."""
    return isinstance(expression, relax.Call) and getattr(expression.op, "name", "") == op_name


def is_matrix(expression: relax.Expr) -> bool:
    """Whether the expression is a tensor of rank 2."""
    return isinstance(expression.ty, relax.TensorType) and expression.ty.ndim == 2


def matmul(left: te.Tensor, right: te.Tensor, trans_left: bool, trans_right: bool) -> te.Tensor:
    """`op(left) @ op(right)` for float32 matrices, where `op` may transpose."""
    rows, depth = left.shape[::-1] if trans_left else left.shape
    columns = right.shape[0] if trans_right else right.shape[1]
    k = te.reduce_axis((0, depth), "k")
    return te.compute(
        (rows, columns),
        lambda i, j: te.sum(
            (left[k, i] if trans_left else left[i, k])
            * (right[j, k] if trans_right else right[k, j]),
            axis=k,
        ),
        name="matmul",
    )


@mutator
class _Absorb(PyExprMutator):
    """Rewrites products of transposes and transposes of products."""

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        if is_call(call, "relax.matmul") and all(is_matrix(arg) for arg in call.args):
            (left, trans_left), (right, trans_right) = map(self._operand, call.args)
            if trans_left or trans_right:
                return self._product(left, right, trans_left, trans_right)
        if is_call(call, "relax.permute_dims") and is_matrix(call.args[0]):
            product = self.lookup_binding(call.args[0])
            # A diamond of transposes around a product: (a b)' = b' a'.
            if is_call(product, "relax.matmul") and all(is_matrix(arg) for arg in product.args):
                (left, trans_left), (right, trans_right) = map(self._operand, product.args)
                return self._product(right, left, not trans_right, not trans_left)
        return call

    def _operand(self, expression: relax.Expr) -> tuple[relax.Expr, bool]:
        """The tensor that is really read, and whether it is read transposed."""
        transposed = False
        while isinstance(expression, relax.Var):
            source = self.lookup_binding(expression)
            if not is_call(source, "relax.permute_dims"):
                break
            expression, transposed = source.args[0], not transposed
        return expression, transposed

    def _product(
        self, left: relax.Expr, right: relax.Expr, trans_left: bool, trans_right: bool
    ) -> relax.Expr:
        return self.builder_.call_te(
            matmul, left, right, trans_left, trans_right, primfunc_name_hint="matmul"
        )


@dataclass(frozen=True)
class AbsorbTranspose(Pass):
    """Lets matrix products read transposed operands in place; dead transposes go."""

    name: ClassVar[str] = "absorb-transpose"

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites every Relax function of the module."""
        rewriter = _Absorb(module)
        for variable, function in module.functions_items():
            if isinstance(function, relax.Function):
                rewriter.builder_.update_func(variable, rewriter.visit_expr(function))
        return relax.transform.DeadCodeElimination()(rewriter.builder_.get())
