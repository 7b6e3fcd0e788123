"""Comparisons, booleans, bits, choice and casts."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import helper
from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.frontend.operators.operator import Emit, Node, Operator, binary, unary

_CASTS = frozenset(
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split()
)


def _target(node: Node) -> str:
    """The dtype that a Cast gives."""
    return helper.tensor_dtype_to_np_dtype(node.attrs["to"]).name


def _known_types(node: Node) -> str:
    """From and to booleans, integers of 8 to 64 bits, and floats of 16 to 64."""
    for dtype in (node.dtype(), _target(node)):
        if dtype not in _CASTS:
            return f"the type {dtype} is not supported"
    return ""


def _cast(_: relax.BlockBuilder, node: Node, inputs: Sequence[Any]) -> relax.Expr:
    source, target = node.dtype(), _target(node)
    if source == target:
        return inputs[0]
    if target == "bool":
        return R.not_equal(inputs[0], relax.const(0, source))
    return R.astype(inputs[0], target)


def _cast_like(node: Node, emit: Emit) -> str:
    return emit("Cast", node.inputs[0], to=helper.np_dtype_to_tensor_dtype(np.dtype(node.dtype(1))))


def _chosen(node: Node, _: Emit) -> str | None:
    """The branch that a constant condition takes everywhere, where that has the result's shape."""
    condition = node.constant(0)
    if condition is None or not condition.size or condition.any() != condition.all():
        return None
    slot = 1 if condition.any() else 2
    known = node.inputs[slot] in node.graph.shapes
    return node.inputs[slot] if known and node.shape(slot) == node.output_shape() else None


def _is_infinite(_: relax.BlockBuilder, node: Node, inputs: Sequence[Any]) -> relax.Expr:
    signs = [
        sign
        for sign, name in ((1.0, "detect_positive"), (-1.0, "detect_negative"))
        if node.attrs.get(name, 1)
    ]
    infinities = [relax.const(sign * np.inf, node.dtype()) for sign in signs]
    found = [R.equal(inputs[0], infinity) for infinity in infinities]
    if not found:
        return R.zeros(node.shape(), "bool")
    return found[0] if len(found) == 1 else R.logical_or(*found)


def _equal(_: relax.BlockBuilder, node: Node, inputs: Sequence[Any]) -> relax.Expr:
    """TVM compares booleans as if they were floats, which LLVM refuses."""
    if node.dtype() == "bool":
        return R.logical_not(R.logical_xor(*inputs))
    return R.equal(*inputs)


def _shift(_: relax.BlockBuilder, node: Node, inputs: Sequence[Any]) -> relax.Expr:
    """A shift by all bits or more leaves the sign, or nothing; a processor does as it likes."""
    data, places = inputs
    dtype = node.dtype()
    bits = 8 * np.dtype(dtype).itemsize
    zero, last, limit = (relax.const(number, dtype) for number in (0, bits - 1, bits))
    within = R.logical_and(R.greater_equal(places, zero), R.less(places, limit))
    left = node.attrs["direction"] == "LEFT"
    shifted = (R.left_shift if left else R.right_shift)(data, R.where(within, places, last))
    return shifted if dtype[0] == "i" and not left else R.where(within, shifted, zero)


OPERATORS: dict[str, Operator] = {
    "And": Operator(convert=binary(R.logical_and)),
    "BitShift": Operator(convert=_shift),
    "BitwiseAnd": Operator(convert=binary(R.bitwise_and)),
    "BitwiseNot": Operator(convert=unary(R.bitwise_not)),
    "BitwiseOr": Operator(convert=binary(R.bitwise_or)),
    "BitwiseXor": Operator(convert=binary(R.bitwise_xor)),
    "Cast": Operator(condition=_known_types, convert=_cast),
    "CastLike": Operator(expand=_cast_like),
    "Equal": Operator(convert=_equal),
    "Greater": Operator(convert=binary(R.greater)),
    "GreaterOrEqual": Operator(convert=binary(R.greater_equal)),
    "IsInf": Operator(convert=_is_infinite),
    "IsNaN": Operator(convert=unary(R.isnan)),
    "Less": Operator(convert=binary(R.less)),
    "LessOrEqual": Operator(convert=binary(R.less_equal)),
    "Not": Operator(convert=unary(R.logical_not)),
    "Or": Operator(convert=binary(R.logical_or)),
    "Where": Operator(expand=_chosen, convert=lambda _, __, inputs: R.where(*inputs)),
    "Xor": Operator(convert=binary(R.logical_xor)),
}
