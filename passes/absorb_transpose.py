"""Matrix products read their operands transposed, where a copy would have been made.

`matmul(x, permute_dims(w))` becomes one kernel that reads `w` by columns. Gemm with `transB`, its
two gradients and every linear layer have this form, and a transposed copy of a weight would be a
second copy of the parameter. Only operands of rank 2 are rewritten.
"""

from dataclasses import dataclass
from typing import ClassVar, TypeGuard

import tvm
from tvm import relax, te
from tvm.relax.expr_functor import PyExprMutator, mutator

from odtc.passes.contract import Pass


def is_call(expression: relax.Expr | None, op_name: str) -> TypeGuard[relax.Call]:
    """Whether the expression calls that Relax operator."""
    return getattr(getattr(expression, "op", None), "name", "") == op_name


def is_matrix(expression: relax.Expr) -> bool:
    """Whether the expression is a tensor of rank 2."""
    return isinstance(expression.ty, relax.TensorType) and expression.ty.ndim == 2


def is_product(expression: relax.Expr | None) -> TypeGuard[relax.Call]:
    """Whether the expression multiplies two matrices."""
    return is_call(expression, "relax.matmul") and all(map(is_matrix, expression.args))


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
class _PushDown(PyExprMutator):
    """Moves a transpose of a product to its operands: `(a b)' = b' a'`."""

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        if is_call(call, "relax.permute_dims") and is_matrix(call.args[0]):
            product = self.lookup_binding(call.args[0])
            if is_product(product):
                left, right = (self.builder_.emit(relax.op.permute_dims(a)) for a in product.args)
                return relax.op.matmul(right, left)
        return call


@mutator
class _Absorb(PyExprMutator):
    """Lets products read through the transposes of their operands."""

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        if not is_product(call):
            return call
        (left, trans_left), (right, trans_right) = map(self._operand, call.args)
        if not (trans_left or trans_right):
            return relax.op.matmul(left, right)
        return self.builder_.call_te(
            matmul, left, right, trans_left, trans_right, primfunc_name_hint="matmul"
        )

    def _operand(self, expression: relax.Expr) -> tuple[relax.Expr, bool]:
        """The tensor that is really read, and whether it is read transposed."""
        transposed = False
        while isinstance(expression, relax.Var):
            source = self.lookup_binding(expression)
            if not is_call(source, "relax.permute_dims"):
                break
            expression, transposed = source.args[0], not transposed
        return expression, transposed


@dataclass(frozen=True)
class AbsorbTranspose(Pass):
    """Lets matrix products read transposed operands in place; dead transposes go."""

    name: ClassVar[str] = "absorb-transpose"

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites every Relax function of the module."""
        for rewrite in (_PushDown, _Absorb):
            rewriter = rewrite(module)
            for variable, function in module.functions_items():
                if isinstance(function, relax.Function):
                    rewriter.builder_.update_func(variable, rewriter.visit_expr(function))
            module = relax.transform.DeadCodeElimination()(rewriter.builder_.get())
        return module
