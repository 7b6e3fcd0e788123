"""A product of rows of which some are read is a product of those rows.

Language models give a score of each word for every token, and their loss leaves out the last token,
which has no next one: `scores[:, :-1]`. The slice copies what is left, and its gradient fills up
with zeros, both as large as the scores. In front of the product it is one of features:

    slice(reshape(x w))  →  reshape(slice(reshape(x)) w)

So it is where nothing but results of the function reads the other rows.
"""

from collections import Counter

import tvm
from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.core.ir.relax_calls import is_call, operator_of
from odtc.dialect.table import OPERATORS
from odtc.frontend.backward.rebuild import replayed

_MATRIX = 2
# What may stand between, with operands that are the same for all rows.
_BETWEEN = {name for name, operator in OPERATORS.items() if operator.maps} | {
    f"relax.{name}" for name in ("add", "subtract", "multiply", "divide", "tanh")
}


def slice_rows(module: tvm.IRModule, name: str) -> tvm.IRModule:
    """The module with slices in front of products.

    Args:
        module: holds the function, and the kernels that it calls directly.
        name: of the function, which has one block.
    """
    return replayed(module, name, _SliceRows(module[name]))


class _SliceRows:
    """A replay rule; see above.

    Args:
        function: what is replayed.
    """

    def __init__(self, function: relax.Function) -> None:
        (block,) = function.body.blocks
        self._values = {binding.var: binding.value for binding in block.bindings}
        returned = set(relax.analysis.free_vars(function.body.body))
        # Readers that are no result, or a tuple of results.
        self._readers: Counter[relax.Var] = Counter()
        for variable, value in self._values.items():
            if variable not in returned:
                self._readers.update(set(relax.analysis.free_vars(value)))

    def __call__(self, builder: relax.BlockBuilder, binding: relax.Binding) -> relax.Expr | None:
        """Returns the result of a product of some rows, or None where there is none."""
        call = binding.value
        if not is_call(call, "relax.strided_slice"):
            return None
        given, axes = call.args[0], [int(axis) for axis in call.args[1].fields]
        reshaped, shape = self._values.get(given), _shape(given)
        if not is_call(reshaped, "relax.reshape") or max(axes) >= len(shape) - 1:
            return None
        rows = reshaped.args[0]
        if len(_shape(rows)) != _MATRIX or _shape(rows)[-1] != shape[-1]:
            return None
        if not self._is_of_product(given, rows):
            return None
        made = self._made(builder, rows, shape[:-1], call)
        return R.reshape(made, _shape(call))

    def _is_of_product(self, reader: relax.Expr, variable: relax.Expr) -> bool:
        """Whether a variable is a product, or a function of one row of that, for one reader."""
        value = self._values.get(variable)
        if self._readers[reader] > 1 or self._readers[variable] > 1:
            return False
        if is_call(value, "relax.matmul"):
            return len(_shape(value.args[1])) == _MATRIX
        if value is None or operator_of(value) not in _BETWEEN:
            return False
        large = [each for each in value.args if len(_shape(each)) >= _MATRIX]
        return len(large) == 1 and self._is_of_product(variable, large[0])

    def _made(
        self, builder: relax.BlockBuilder, variable: relax.Expr, lead: list[int], call: relax.Call
    ) -> relax.Expr:
        """Emits the value of a variable of all rows for those of the slice."""
        value = self._values[variable]
        if is_call(value, "relax.matmul"):
            x, weights = value.args
            width = _shape(x)[-1]
            whole = builder.emit(R.reshape(x, [*lead, width]))
            some = builder.emit(relax.Call(call.op, [whole, *call.args[1:]], call.attrs))
            flat = builder.emit(R.reshape(some, [-1, width]))
            return builder.emit(relax.Call(value.op, [flat, weights], value.attrs))
        given = [
            self._made(builder, each, lead, call) if len(_shape(each)) >= _MATRIX else each
            for each in value.args
        ]
        return builder.emit(relax.Call(value.op, given, value.attrs))


def _shape(expression: relax.Expr) -> list[int]:
    return [int(size) for size in expression.ty.shape]
