"""Matrix products read their operands transposed, where a copy would have been made.

`matmul(x, permute_dims(w))` becomes one kernel that reads `w` by columns. Gemm with `transB`, its
two gradients and every linear layer have this form, and a transposed copy of a weight would be a
second copy of the parameter. Products also read operands that are stored in half precision. Only
float32 products of rank 2 are rewritten.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, TypeGuard

import tvm
from tvm import relax, tirx
from tvm.relax.expr_functor import PyExprMutator, mutator

from odtc.passes.contract import Pass

# From the operands, as stored, and whether each is transposed, to `(left, right, result)`.
Product = Callable[[relax.Expr, relax.Expr, bool, bool], tirx.PrimFunc]


def is_call(expression: relax.Expr | None, op_name: str) -> TypeGuard[relax.Call]:
    """Whether the expression calls that Relax operator."""
    return getattr(getattr(expression, "op", None), "name", "") == op_name


def is_matrix(expression: relax.Expr) -> bool:
    """Whether the expression is a float32 tensor of rank 2."""
    type_ = expression.ty
    return isinstance(type_, relax.TensorType) and type_.ndim == 2 and type_.dtype == "float32"


def is_product(expression: relax.Expr | None) -> TypeGuard[relax.Call]:
    """Whether the expression multiplies two matrices."""
    return is_call(expression, "relax.matmul") and all(map(is_matrix, expression.args))


def is_widening(expression: relax.Expr | None) -> TypeGuard[relax.Call]:
    """Whether the expression casts a half-precision tensor."""
    return is_call(expression, "relax.astype") and expression.args[0].ty.dtype == "float16"


@mutator
class _PushDown(PyExprMutator):
    """Moves a transpose of a product to its operands: `(a b)' = b' a'`."""

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        # A constant has no binding to look up.
        if is_call(call, "relax.permute_dims") and isinstance(call.args[0], relax.Var):
            product = self.lookup_binding(call.args[0])
            if is_product(product):
                left, right = (self.builder_.emit(relax.op.permute_dims(a)) for a in product.args)
                return relax.op.matmul(right, left)
        return call


@mutator
class _Absorb(PyExprMutator):
    """Lets products read through the transposes and casts of their operands."""

    def __init__(self, module: tvm.IRModule, product: Product) -> None:
        super().__init__(module)
        self._make = product

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        if not is_product(call):
            return call
        (left, trans_left), (right, trans_right) = map(self._operand, call.args)
        kernel = self._make(left, right, trans_left, trans_right)
        name = self.builder_.add_func(kernel, "matmul")
        return relax.call_tir(name, relax.Tuple([left, right]), call.ty)

    def _operand(self, expression: relax.Expr) -> tuple[relax.Expr, bool]:
        """The tensor that is really read, and whether it is read transposed."""
        transposed = False
        while isinstance(expression, relax.Var):
            source = self.lookup_binding(expression)
            if is_call(source, "relax.permute_dims"):
                transposed = not transposed
            elif not is_widening(source):
                break
            expression = source.args[0]
        return expression, transposed


@dataclass(frozen=True)
class AbsorbTranspose(Pass):
    """Puts matrix products on kernels that read transposed operands; dead transposes go.

    Attributes:
        product: makes the kernel of a product.
    """

    name: ClassVar[str] = "absorb-transpose"
    product: Product = field(repr=False)

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites every Relax function of the module."""
        for rewriter_of in (_PushDown, lambda before: _Absorb(before, self.product)):
            rewriter = rewriter_of(module)
            for variable, function in module.functions_items():
                if isinstance(function, relax.Function):
                    rewriter.builder_.update_func(variable, rewriter.visit_expr(function))
            module = relax.transform.DeadCodeElimination()(rewriter.builder_.get())
        return module
