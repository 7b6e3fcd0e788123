"""Moves what follows a product of all rows onto the rows, too.

A linear layer over `[batch, length, features]` multiplies a matrix of `batch * length` rows, and
then gives its result that shape again (`frontend/operators/products/linear.py`). Bias, activation
and residual would read the reshaped tensor, and no kernel can hold them and the product. On rows
they are its tail; the reshape comes after them, and costs nothing.
"""

import math

import tvm
from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.core.ir.relax_calls import operator_of
from odtc.dialect.table import OPERATORS
from odtc.frontend.backward.rebuild import replayed

# Elementwise operators of Relax whose operands broadcast as NumPy's do.
_ELEMENTWISE = {name for name, operator in OPERATORS.items() if operator.maps} | {
    f"relax.{name}"
    for name in (
        "add subtract multiply divide maximum minimum abs negative square exp log sqrt rsqrt erf "
        "tanh sigmoid sin cos nn.relu"
    ).split()
}


def on_rows(module: tvm.IRModule, name: str) -> tvm.IRModule:
    """The module with elementwise operators in front of the reshapes of products.

    Args:
        module: holds the function, and the kernels that it calls directly.
        name: of the function, which has one block.
    """
    return replayed(module, name, _OnRows())


class _OnRows:
    """A replay rule that moves reshapes after elementwise operators."""

    def __init__(self) -> None:
        self._products: set[relax.Var] = set()
        # What is a matrix in another shape, to that matrix.
        self._rows: dict[relax.Var, relax.Var] = {}
        # A reshape that leads back to a matrix, to that matrix.
        self._same: dict[relax.Var, relax.Var] = {}

    def __call__(self, builder: relax.BlockBuilder, binding: relax.Binding) -> relax.Expr | None:
        """Returns the reshape of a result on rows, or None where an operator stays as it is."""
        call = binding.value
        operator = operator_of(call)
        if operator == "relax.matmul":
            self._products.add(binding.var)
            # The matrix itself, where the next layer has the reshape of its reshape.
            given = [self._same.get(each, each) for each in call.args]
            return relax.Call(call.op, given, call.attrs)
        if operator == "relax.reshape":
            self._reshaped(binding.var, call)
        elif operator in _ELEMENTWISE:
            operands = self._operands(builder, call)
            if operands is not None:
                result = builder.emit(relax.Call(call.op, operands, call.attrs), binding.var.name)
                self._rows[binding.var] = result
                return R.reshape(result, _shape(call))
        return None

    def _reshaped(self, variable: relax.Var, call: relax.Call) -> None:
        (source, _), shape = call.args, _shape(call)
        if source in self._products and shape[-1:] == _shape(source)[1:]:
            self._rows[variable] = source
        elif source in self._rows and shape == _shape(self._rows[source]):
            self._same[variable] = self._rows[source]

    def _operands(self, builder: relax.BlockBuilder, call: relax.Call) -> list[relax.Expr] | None:
        """The operands on rows; None where no product is among them, or one has no such form."""
        shape = _shape(call)
        if not any(each in self._rows and _shape(each) == shape for each in call.args):
            return None
        rows = [math.prod(shape[:-1]), shape[-1]]
        operands = [self._operand(builder, each, shape, rows) for each in call.args]
        return None if any(each is None for each in operands) else operands

    def _operand(
        self, builder: relax.BlockBuilder, given: relax.Expr, shape: list[int], rows: list[int]
    ) -> relax.Expr | None:
        own = _shape(given)
        if own == shape:
            form, known = rows, self._rows.get(given)
            if known is not None:
                return known
        elif math.prod(own) == 1:
            form = []
        elif own[-1:] == shape[-1:] == [math.prod(own)]:
            form = own[-1:]
        else:
            return None
        return given if own == form else builder.emit(R.reshape(given, form))


def _shape(expression: relax.Expr) -> list[int]:
    return [int(size) for size in expression.ty.shape]
