"""Matrix products read their operands transposed, where a copy would have been made.

`matmul(x, permute_dims(w))` becomes one kernel that reads `w` by columns. Gemm with `transB`, its
two gradients and every linear layer have this form, and a transposed copy of a weight would be a
second copy of the parameter. So have the gradients of attention's products, matrix by matrix.
Products also read operands that are stored in half precision, and a right one that is dequantised.
Products of float32 matrices, or of equally many, are rewritten.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, TypeGuard

import tvm
import tvm_ffi
from tvm import ir, relax, tirx
from tvm.relax.expr_functor import PyExprMutator, mutator

from odtc.core.ir.relax_calls import is_call
from odtc.dialect.elements.dequantised import dequantised
from odtc.passes.contract import Pass

# From the operands, as stored, and whether each is transposed, to `(left, right, result)`. The
# right one may be a call of `dequantised`: then the kernel takes the call's tensors in its place.
Product = Callable[[relax.Expr, relax.Expr, bool, bool], tirx.PrimFunc]

# Dimensions of a matrix.
_MATRIX = 2


def is_product(expression: relax.Expr | None) -> TypeGuard[relax.Call]:
    """Whether the expression multiplies float32 matrices, one of each operand at a time."""
    if not is_call(expression, "relax.matmul"):
        return False
    types = [operand.ty for operand in expression.args]
    if any(each.ndim < _MATRIX or each.dtype != "float32" for each in types):
        return False
    left, right = ([int(size) for size in each.shape][:-_MATRIX] for each in types)
    return left == right


def is_transpose(expression: relax.Expr | None) -> TypeGuard[relax.Call]:
    """Whether the expression transposes a matrix, or each of many."""
    if not is_call(expression, "relax.permute_dims"):
        return False
    rank = int(expression.ty.ndim)
    given = expression.attrs.axes
    axes = [int(axis) % rank for axis in given] if given else list(range(rank))[::-1]
    return rank >= _MATRIX and axes == [*range(rank - _MATRIX), rank - 1, rank - _MATRIX]


def is_widening(expression: relax.Expr | None) -> TypeGuard[relax.Call]:
    """Whether the expression casts a half-precision tensor."""
    return is_call(expression, "relax.astype") and expression.args[0].ty.dtype == "float16"


def _transposed(builder: relax.BlockBuilder, expression: relax.Expr) -> relax.Var:
    rank = int(expression.ty.ndim)
    axes = [*range(rank - _MATRIX), rank - 1, rank - _MATRIX]
    return builder.emit(relax.op.permute_dims(expression, axes))


@mutator
class _PushDown(PyExprMutator):
    """Moves a transpose of a product to its operands: `(a b)' = b' a'`."""

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        # A constant has no binding to look up.
        if is_transpose(call) and isinstance(call.args[0], relax.Var):
            product = self.lookup_binding(call.args[0])
            if is_product(product):
                left, right = (_transposed(self.builder_, each) for each in product.args)
                return relax.op.matmul(right, left)
        return call


@mutator
class _Absorb(PyExprMutator):
    """Lets products read through the transposes and casts of their operands."""

    def __init__(self, module: tvm.IRModule, product: Product) -> None:
        super().__init__(module)
        self._make = product
        self._made: dict[tvm_ffi.StructuralKey, ir.GlobalVar] = {}

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        if not is_product(call):
            return call
        (left, trans_left), (right, trans_right) = map(self._operand, call.args)
        read, tensors = right, [right]
        source = self.lookup_binding(right) if isinstance(right, relax.Var) else None
        if is_call(source, dequantised.name) and source.ty.ndim == _MATRIX:
            read, tensors = source, list(source.args)
        name = self._kernel(left, read, trans_left, trans_right)
        return relax.call_tir(name, relax.Tuple([left, *tensors]), call.ty)

    def _kernel(
        self, left: relax.Expr, right: relax.Expr, trans_left: bool, trans_right: bool
    ) -> ir.GlobalVar:
        """The kernel of a product, which is made once for all whose operands are alike."""
        tensors, codes = [right], None
        if is_call(right, dequantised.name):
            tensors, codes = list(right.args), right.attrs
        types = [each.ty for each in (left, *tensors)]
        kind = tvm_ffi.StructuralKey([types, codes, trans_left, trans_right])
        if kind not in self._made:
            kernel = self._make(left, right, trans_left, trans_right)
            self._made[kind] = self.builder_.add_func(kernel, "matmul")
        return self._made[kind]

    def _operand(self, expression: relax.Expr) -> tuple[relax.Expr, bool]:
        """The tensor that is really read, and whether it is read transposed."""
        transposed = False
        while isinstance(expression, relax.Var):
            source = self.lookup_binding(expression)
            if is_transpose(source):
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
