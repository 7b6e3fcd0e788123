"""Folds scales and shifts of channels after a batch normalisation into its own scale and shift.

Models that come from Caffe normalise without a scale, and have that as a layer of its own:

    s * (g * n + b) + t = (s * g) * n + (s * b + t)

for the normalised n. Each of the four is trained as before: what the left side multiplies tensors
by, the right side multiplies numbers of channels by. The gradient of s would otherwise need the
normalised tensor, and so keep a second copy of every image.
"""

import math
from collections import Counter
from dataclasses import dataclass

import tvm
from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.core.ir.relax_calls import operator_of
from odtc.frontend.backward.batch_norm import INFERENCE
from odtc.frontend.backward.rebuild import replayed

_MULTIPLY, _ADD = "relax.multiply", "relax.add"


def join_scales(module: tvm.IRModule, name: str) -> tvm.IRModule:
    """The module with batch normalisations that do what is done to their channels.

    Args:
        module: holds the function, and the kernels that it calls directly.
        name: of the function, which has one block.
    """
    return replayed(module, name, _JoinScales(module[name]))


@dataclass(frozen=True)
class _Normal:
    """A batch normalisation, and the scale and the shift that it has by now."""

    call: relax.Call
    scale: relax.Expr
    shift: relax.Expr


class _JoinScales:
    """A replay rule that puts another batch normalisation in the place of what follows one."""

    def __init__(self, function: relax.Function) -> None:
        (block,) = function.body.blocks
        self._readers: Counter[relax.Var] = Counter(relax.analysis.free_vars(function.body.body))
        for binding in block.bindings:
            self._readers.update(relax.analysis.free_vars(binding.value))
        self._calls: dict[relax.Var, relax.Call] = {}
        # Normalised tensors.
        self._normal: dict[relax.Var, _Normal] = {}

    def __call__(self, builder: relax.BlockBuilder, binding: relax.Binding) -> relax.Expr | None:
        """Returns the result of a normalisation, or None where an operator stays as it is."""
        value = binding.value
        operator = operator_of(value)
        if operator == INFERENCE:
            self._calls[binding.var] = value
        elif isinstance(value, relax.TupleGetItem):
            self._found(binding.var, value)
        elif operator in (_MULTIPLY, _ADD):
            return self._joined(builder, binding.var, value)
        return None

    def _found(self, variable: relax.Var, field: relax.TupleGetItem) -> None:
        call = self._calls.get(field.tuple_value)
        if call is not None and field.index == 0:
            self._normal[variable] = _Normal(call, *call.args[1:3])

    def _joined(
        self, builder: relax.BlockBuilder, variable: relax.Var, call: relax.Call
    ) -> relax.Expr | None:
        data, other = call.args if call.args[0] in self._normal else reversed(call.args)
        normal = self._normal.get(data)
        if normal is None or self._readers[data] > 1 or not _is_per_channel(other, data):
            return None
        channels = int(data.ty.shape[1])
        size = channels if math.prod(_shape(other)) == channels else 1
        number = builder.emit(R.reshape(other, (size,)))
        scale, shift = normal.scale, normal.shift
        if call.op.name == _MULTIPLY:
            scale = builder.emit(R.multiply(scale, number))
            shift = builder.emit(R.multiply(shift, number))
        else:
            shift = builder.emit(R.add(shift, number))
        given = [normal.call.args[0], scale, shift, *normal.call.args[3:]]
        joined = relax.Call(normal.call.op, given, normal.call.attrs)
        self._normal[variable] = _Normal(joined, scale, shift)
        return relax.TupleGetItem(builder.emit(joined), 0)


def _is_per_channel(other: relax.Expr, data: relax.Expr) -> bool:
    """Whether an operand has one number for each channel of the data, or one for all."""
    if str(other.ty.dtype) != str(data.ty.dtype):
        return False
    own, full = _shape(other), _shape(data)
    if len(own) > len(full):
        return False
    own = [1] * (len(full) - len(own)) + own
    return own[1] in (1, full[1]) and math.prod(own) == own[1]


def _shape(expression: relax.Expr) -> list[int]:
    return [int(size) for size in expression.ty.shape]
