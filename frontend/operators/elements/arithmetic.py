"""Elementwise arithmetic, with broadcasting."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.dialect.elements import pointwise
from odtc.dialect.elements.remainder import remainder
from odtc.frontend.operators.operator import (
    Convert,
    Emit,
    Expand,
    Node,
    Operator,
    binary,
    is_float,
    unary,
)
from odtc.frontend.weights.exporters.torch_metadata import function_of

# Functions of PyTorch that are one operator in ONNX, and differ in their gradient at the bounds.
_HARDTANH = "hardtanh"
_CLAMPS = frozenset({"clamp", "clamp_max", "clamp_min", "clip"})

# Exponents that are products or roots: cheaper than a power, and exact. A product reads the base
# again in its gradient, a root its result.
_POWERS: dict[float, Callable[[Any], relax.Expr]] = {
    0.5: R.sqrt,
    -0.5: R.rsqrt,
    -1.0: pointwise.reciprocal,
    1.0: lambda base: base,
    2.0: R.square,
    3.0: lambda base: pointwise.integer_power(base, exponent=3),
    4.0: lambda base: pointwise.integer_power(base, exponent=4),
}


def _power(_: relax.BlockBuilder, node: Node, inputs: Sequence[Any]) -> relax.Expr:
    base, exponent = inputs
    value, dtype = node.constant(1), node.dtype(0)
    if not is_float(dtype):
        # Exact up to 2^53; TVM has no power of integers.
        wide = R.power(R.astype(base, "float64"), R.astype(exponent, "float64"))
        return R.astype(wide, dtype)
    # A constant of more elements than one may broadcast the base.
    if value is not None and value.ndim <= node.rank(0) and value.size == 1:
        simpler = _POWERS.get(float(value.item()))
        if simpler is not None:
            return simpler(base)
    return R.power(base, exponent if node.dtype(1) == dtype else R.astype(exponent, dtype))


def _modulo(_: relax.BlockBuilder, node: Node, inputs: Sequence[Any]) -> relax.Expr:
    """The remainder has the sign of the dividend with `fmod`, else that of the divisor."""
    if is_float(node.dtype()):
        return remainder(*inputs)
    return (R.mod if node.attrs.get("fmod") else R.floor_mod)(*inputs)


def _divisor(node: Node) -> str:
    """The divisor must not be the constant zero."""
    value = node.constant(1)
    if value is None or value.all():
        return ""
    # Among other floats a zero makes an infinity, as elsewhere; of integers nothing is defined.
    return "it divides by zero" if value.size == 1 or not is_float(node.dtype()) else ""


def _remainder(node: Node) -> str:
    """Of floats, fmod must be 1, and they have 32 or 64 bits; no divisor is the constant zero."""
    if node.dtype() == "float16":
        return "the remainder of float16 is not supported"
    if is_float(node.dtype()) and not node.attrs.get("fmod"):
        return "fmod must be 1 for floats, says ONNX"
    return _divisor(node)


def _pairwise(op_type: str) -> Expand:
    """An operator of n inputs as n - 1 of two; TVM's importer would stack copies of the inputs."""

    def expand(node: Node, emit: Emit) -> str | None:
        if len(node.inputs) == 2 and node.proto.op_type == op_type:
            return None
        *_, total = itertools.accumulate(node.inputs, lambda a, b: emit(op_type, a, b))
        return total

    return expand


def _mean(node: Node, emit: Emit) -> str:
    total = _pairwise("Add")(node, emit)
    return emit("Mul", total, 1.0 / len(node.inputs)) if len(node.inputs) > 1 else str(total)


def _one_number(node: Node) -> str:
    """Each bound is one number."""
    for slot in (1, 2):
        shape = node.graph.shapes.get(node.inputs[slot], ()) if node.has(slot) else ()
        if math.prod(shape) != 1:
            return f"the bound {node.inputs[slot]!r} has the shape {list(shape)}; it is one number"
    return ""


def _bounds(node: Node) -> tuple[float | None, float | None]:
    """Constant bounds of a Clip, None where there is none; of the tensor's kind of number."""
    bounds = [node.number(name, slot) for name, slot in (("min", 1), ("max", 2))]
    low, high = (b if b is None or abs(b) != float("inf") else None for b in bounds)
    return low, high


def _computed_bounds(node: Node, emit: Emit) -> str | None:
    """Clip to computed bounds: at a bound the adjoint passes, as with constant ones."""
    held = [slot for slot in (1, 2) if node.has(slot)]
    if all(node.constant(slot) is not None for slot in held):
        return None
    y = node.inputs[0]
    for slot in held:
        bound = node.inputs[slot]
        if node.constant(slot) is None:
            y = emit("Where", emit("Less" if slot == 1 else "Greater", y, bound), bound, y)
        else:
            y = emit("Clip", y, *("" if other != slot else bound for other in (1, 2)))
    return y


def _clip(_: relax.BlockBuilder, node: Node, inputs: Sequence[Any]) -> relax.Expr:
    low, high = _bounds(node)
    if (low, high) == (None, None):
        return inputs[0]
    called = function_of(node.proto)
    # What ReLU6 is exported as; its gradient is zero at both ends, as ReLU's is at zero.
    if (low, high) == (0.0, 6.0) and is_float(node.dtype()) and called not in _CLAMPS:
        return pointwise.relu6(inputs[0])
    if called == _HARDTANH and low is not None and high is not None and low < high:
        return pointwise.hardtanh(inputs[0], low=low, high=high)
    return pointwise.clip(inputs[0], low=low, high=high)


def _extremum(op_type: str) -> Expand:
    """Max or Min; one that the file says is a clamp to a number lets the adjoint pass there."""
    pairs = _pairwise(op_type)

    def expand(node: Node, emit: Emit) -> str | Sequence[str] | None:
        if (
            function_of(node.proto) not in _CLAMPS
            or len(node.inputs) != 2
            or not is_float(node.dtype())
        ):
            return pairs(node, emit)
        for slot, data in ((0, 1), (1, 0)):
            value = node.constant(slot)
            if value is not None and value.size == 1 and value.ndim <= node.rank(data):
                bound = value.reshape(())
                bounds = (bound,) if op_type == "Max" else ("", bound)
                return emit("Clip", node.inputs[data], *bounds)
        return pairs(node, emit)

    return expand


def _float_only(convert: Convert) -> Convert:
    """Leaves integers, which are whole already, as they are."""
    return lambda builder, node, inputs: (
        convert(builder, node, inputs) if is_float(node.dtype()) else inputs[0]
    )


OPERATORS: dict[str, Operator] = {
    "Abs": Operator(convert=unary(R.abs)),
    "Acos": Operator(convert=unary(R.acos)),
    "Acosh": Operator(convert=unary(R.acosh)),
    "Add": Operator(convert=binary(R.add)),
    "Asin": Operator(convert=unary(R.asin)),
    "Asinh": Operator(convert=unary(R.asinh)),
    "Atan": Operator(convert=unary(R.atan)),
    "Atanh": Operator(convert=unary(R.atanh)),
    "Ceil": Operator(convert=_float_only(unary(R.ceil))),
    "Clip": Operator(condition=_one_number, expand=_computed_bounds, convert=_clip),
    "Cos": Operator(convert=unary(R.cos)),
    "Cosh": Operator(convert=unary(pointwise.cosh)),
    "Div": Operator(condition=_divisor, convert=binary(R.divide)),
    "Erf": Operator(convert=unary(R.erf)),
    "Exp": Operator(convert=unary(R.exp)),
    "Floor": Operator(convert=_float_only(unary(R.floor))),
    "Log": Operator(convert=unary(R.log)),
    "Max": Operator(expand=_extremum("Max"), convert=binary(R.maximum)),
    "Mean": Operator(expand=_mean),
    "Min": Operator(expand=_extremum("Min"), convert=binary(R.minimum)),
    "Mod": Operator(condition=_remainder, convert=_modulo),
    "Mul": Operator(convert=binary(R.multiply)),
    "Neg": Operator(convert=unary(R.negative)),
    "Pow": Operator(convert=_power),
    "Reciprocal": Operator(convert=unary(pointwise.reciprocal)),
    "Round": Operator(convert=_float_only(unary(R.round))),
    "Sign": Operator(convert=unary(R.sign)),
    "Sin": Operator(convert=unary(R.sin)),
    "Sinh": Operator(convert=unary(pointwise.sinh)),
    "Sqrt": Operator(convert=unary(R.sqrt)),
    "Sub": Operator(convert=binary(R.subtract)),
    "Sum": Operator(expand=_pairwise("Add")),
    "Tan": Operator(convert=unary(R.tan)),
}
