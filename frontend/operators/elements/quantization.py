"""Quantised tensors: integers with a scale and a zero point.

They run forward. Rounding has no gradient, and none is assumed for it: what is trained must not lie
before it. Sums of integers are exact.
"""

import math
from collections.abc import Callable

import numpy as np
from onnx import TensorProto, helper

from odtc.frontend.operators.forms import reshape
from odtc.frontend.operators.images.patches import STEPS_SINCE, counts_of, patches
from odtc.frontend.operators.images.windows import fits, one_to_three_axes, pads_by, windows_of
from odtc.frontend.operators.operator import (
    Condition,
    Emit,
    Expand,
    Level,
    Node,
    Operator,
    is_float,
)
from odtc.frontend.operators.reduction import reduce

_FLOAT, _INT32 = TensorProto.FLOAT, TensorProto.INT32
_RANGES = {name: np.iinfo(name) for name in ("int8", "uint8", "int16", "uint16")}
# The slot of the scale of what a QLinear operator gives.
_RESULT_SCALE = 6
_ELEMENTS = (*_RANGES, "int32")
_TABLE = 2


def _static(node: Node) -> str:
    """The inputs' shapes must be known."""
    known = all(name in node.graph.shapes for name in node.inputs if name)
    return "" if known else "the inputs' shapes are not static"


def _axis(node: Node) -> int:
    return node.attrs.get("axis", 1) % max(node.rank(), 1)


def _fits(node: Node) -> str:
    """One scale, or one for each element or block of an axis; as many zero points."""
    scale, shape = node.shape(1), node.shape()
    zeros = node.shape(2) if node.has(2) else scale
    if zeros != scale and not math.prod(zeros) == math.prod(scale) == 1:
        return f"the zero point has the shape {list(zeros)}, the scale {list(scale)}"
    if math.prod(scale) == 1 or (len(scale) == 1 and scale[0] == shape[_axis(node)]):
        return ""
    block = node.attrs.get("block_size", 0)
    if block and len(scale) == len(shape):
        expected = list(shape)
        expected[_axis(node)] = -(-shape[_axis(node)] // block)
        return "" if expected == list(scale) else f"blocks of {block} do not fit {list(scale)}"
    return f"a scale of shape {list(scale)} does not fit {list(shape)}"


def _nonzero(node: Node, slot: int) -> str:
    """The scale, checked: quantised values are divided by it."""
    scale = node.constant(slot)
    return "" if scale is None or scale.all() else f"the scale {node.inputs[slot]!r} is zero"


def _quantizes(node: Node) -> str:
    """Floats, to 8 or 16 bits; one scale, or one for each element of an axis, or each block."""
    if not is_float(node.dtype()) or _target(node) not in _RANGES:
        return f"from {node.dtype()} to {_target(node)}: only floats to {', '.join(_RANGES)}"
    return _static(node) or _fits(node) or _nonzero(node, 1)


def _dequantizes(node: Node) -> str:
    """Integers of 8 to 32 bits; one scale, or one for each element of an axis, or each block."""
    if node.dtype() not in _ELEMENTS:
        return f"from {node.dtype()}: only from {', '.join(_ELEMENTS)}"
    return _static(node) or _fits(node)


def _target(node: Node) -> str:
    """Dtype of what a QuantizeLinear gives."""
    if node.has(2):
        return node.dtype(2)
    given = node.attrs.get("output_dtype")
    return helper.tensor_dtype_to_np_dtype(given).name if given else "uint8"


def _spread(node: Node, emit: Emit, slot: int) -> str:
    """A scale or zero point as a tensor that broadcasts against the first input."""
    shape, given, axis = node.shape(), node.shape(slot), _axis(node)
    name = node.inputs[slot]
    if math.prod(given) == 1:
        return reshape(emit, name)
    if len(given) == 1:
        return reshape(emit, name, *(given[0] if at == axis else 1 for at in range(len(shape))))
    block = node.attrs["block_size"]
    apart = reshape(emit, name, *given[: axis + 1], 1, *given[axis + 1 :])
    wide = emit("Expand", apart, np.array([*given[: axis + 1], block, *given[axis + 1 :]]))
    whole = [*shape[:axis], given[axis] * block, *shape[axis + 1 :]]
    joined = reshape(emit, wide, *whole)
    ends = (np.array([each], np.int64) for each in (0, shape[axis], axis))
    return emit("Slice", joined, *ends) if whole[axis] > shape[axis] else joined


def _blocks(node: Node) -> list[int]:
    """The first input's shape with its blocks apart; empty where there are none.

    Where the last block has fewer elements, all are cut into such as fit, if scales are constant.
    """
    shape, given, axis = node.shape(), node.shape(1), _axis(node)
    block = node.attrs.get("block_size", 0)
    if len(given) != len(shape) or math.prod(given) == 1 or not block:
        return []
    if given[axis] * block != shape[axis]:
        slots = (1, 2) if node.has(2) else (1,)
        if any(node.constant(slot) is None for slot in slots):
            return []
        block = math.gcd(block, shape[axis])
    return [*shape[:axis], shape[axis] // block, block, *shape[axis + 1 :]]


def _of_blocks(node: Node, emit: Emit, slot: int) -> str:
    """A scale or zero point as a tensor that broadcasts against blocks that lie apart."""
    given, axis, name = node.shape(slot), _axis(node), node.inputs[slot]
    count, whole = _blocks(node)[axis], node.attrs["block_size"]
    if given[axis] != count:
        parts = np.repeat(node.graph.constants[name], whole // (node.shape()[axis] // count), axis)
        name = node.graph.add_constant("parts", np.take(parts, range(count), axis))
        given = (*given[:axis], count, *given[axis + 1 :])
    return reshape(emit, name, *given[: axis + 1], 1, *given[axis + 1 :])


def _floats(emit: Emit, name: str, to: int = _FLOAT) -> str:
    return emit("Cast", name, to=to)


def _saturated(emit: Emit, value: str, zero: str, dtype: str) -> str:
    """Floats, rounded to even and moved by the zero point, as integers of a dtype."""
    bounds = _RANGES[dtype]
    moved = emit("Add", emit("Round", value), zero) if zero else emit("Round", value)
    low, high = (np.float32(bound) for bound in (bounds.min, bounds.max))
    held = emit("Clip", moved, low, high)
    return emit("Cast", held, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def _quantize(node: Node, emit: Emit) -> str:
    """The quotient is rounded in its own precision; all else is in float32."""
    data, scale = node.inputs[0], _spread(node, emit, 1)
    precision = node.attrs.get("precision")
    if precision:
        data, scale = (_floats(emit, name, precision) for name in (data, scale))
    elif node.dtype(1) != node.dtype():
        data, scale = _floats(emit, data), _floats(emit, scale)
    quotient = _floats(emit, emit("Div", data, scale))
    zero = _floats(emit, _spread(node, emit, 2)) if node.has(2) else ""
    return _saturated(emit, quotient, zero, _target(node))


def _dequantize(node: Node, emit: Emit) -> str:
    held = node.constant(0)
    # Of tables of 8 bits the reader of the file has told, all at once.
    if held is not None and (held.ndim < _TABLE or held.dtype.itemsize > 1):
        node.graph.notes.append(f"{node.inputs[0]}: holds quantised numbers; not trained")
    shape, blocks = node.shape(), _blocks(node)
    data, spread = node.inputs[0], _spread
    if blocks:
        # Each block on an axis of its own: no scale is written out for each element.
        data, spread = reshape(emit, data, *blocks), _of_blocks
    value = _floats(emit, data)
    if node.has(2):
        value = emit("Sub", value, _floats(emit, spread(node, emit, 2)))
    value = emit("Mul", value, _floats(emit, spread(node, emit, 1)))
    if blocks:
        value = reshape(emit, value, *shape)
    target = node.attrs.get("output_dtype")
    return emit(
        "Cast", value, to=target or helper.np_dtype_to_tensor_dtype(np.dtype(node.dtype(1)))
    )


def _dynamic(node: Node, emit: Emit) -> list[str]:
    """The scale with which the range of the data, and zero, just fits."""
    data, axes = node.inputs[0], list(range(node.rank()))
    high = emit("Max", reduce(node, emit, "ReduceMax", data, axes, keepdims=0), 0.0)
    low = emit("Min", reduce(node, emit, "ReduceMin", data, axes, keepdims=0), 0.0)
    span = emit("Sub", high, low)
    span = emit("Where", emit("Equal", span, 0.0), 1.0, span)
    scale = emit("Div", span, 255.0)
    zero = emit("Round", emit("Clip", emit("Neg", emit("Div", low, scale)), 0.0, 255.0))
    result = _saturated(emit, emit("Div", data, scale), zero, "uint8")
    return [result, scale, emit("Cast", zero, to=TensorProto.UINT8)]


def _centred(
    node: Node, emit: Emit, slot: int, zero: int, shape: Callable[[int], list[int]]
) -> str:
    """An operand in 32 bits, without its zero point.

    Args:
        node: the node.
        emit: its emitter.
        slot: of the operand.
        zero: slot of its zero point.
        shape: of the zero point from how many numbers it has, to broadcast.
    """
    data = emit("Cast", node.inputs[slot], to=_INT32)
    if not node.has(zero):
        return data
    wide = emit("Cast", node.inputs[zero], to=_INT32)
    given = node.shape(zero)
    return emit("Sub", data, reshape(emit, wide, *shape(given[0])) if len(given) == 1 else wide)


def _scalar_or(*shape: int) -> Callable[[int], list[int]]:
    """One number, or a vector along the axis that is -1."""
    return lambda count: [] if count == 1 else [count if size < 0 else size for size in shape]


def _product(node: Node, emit: Emit, slots: tuple[int, int, int, int]) -> str:
    """A matrix product of integers; the slots are of operands and zero points."""
    a, b, a_zero, b_zero = slots
    left = _centred(node, emit, a, a_zero, _scalar_or(-1, 1))
    right = _centred(node, emit, b, b_zero, _scalar_or(-1))
    return emit("MatMul", left, right)


def _windows(node: Node, emit: Emit, data: str, weight: str, slot: int) -> str:
    """A convolution of integers: a matrix product of what its windows see."""
    filters, inner, *kernel = node.shape(slot)
    windows, groups = windows_of(node, slot), node.attrs.get("group", 1)
    mode = node.attrs.get("auto_pad", "NOTSET")
    pads = windows.pads if mode == "NOTSET" else pads_by(mode, windows)
    counts, taps = counts_of(windows, pads), math.prod(kernel)
    batch = node.shape()[0]
    # As floats, which every opset can pad, and which hold integers of 9 bits.
    seen = patches(node, emit, _floats(emit, data), windows, pads, 0.0)
    columns = reshape(
        emit, emit("Cast", seen, to=_INT32), batch, groups, inner * taps, math.prod(counts)
    )
    rows = reshape(emit, weight, groups, filters // groups, inner * taps)
    return reshape(emit, emit("MatMul", rows, columns), batch, filters, *counts)


def _convolution(node: Node, emit: Emit, slots: tuple[int, int, int, int]) -> str:
    x, w, x_zero, w_zero = slots
    ones = [1] * (node.rank() - 1)
    data = _centred(node, emit, x, x_zero, _scalar_or(-1))
    weight = _centred(node, emit, w, w_zero, _scalar_or(-1, *ones))
    return _windows(node, emit, data, weight, w)


def _rescaled(
    node: Node, emit: Emit, total: str, scales: tuple[str, str, str], zero: int, dtype: str
) -> str:
    """A sum of integers in another scale: that of both operands over that of the result."""
    a, b, y = (_floats(emit, name) for name in scales)
    factor = emit("Div", emit("Mul", a, b), y)
    value = emit("Mul", _floats(emit, total), factor)
    offset = _floats(emit, node.inputs[zero]) if node.has(zero) else ""
    return _saturated(emit, value, offset, dtype)


def _qlinear_product(node: Node, emit: Emit) -> str:
    total = _product(node, emit, (0, 3, 2, 5))
    rows = node.inputs[1]
    if node.rank(1) == 1:
        rows = reshape(emit, rows, *_scalar_or(-1, 1)(node.shape(1)[0]))
    scales = (rows, node.inputs[4], node.inputs[6])
    return _rescaled(node, emit, total, scales, 7, node.dtype(7))


def _qlinear_convolution(node: Node, emit: Emit) -> str:
    total = _convolution(node, emit, (0, 3, 2, 5))
    ones = [1] * (node.rank() - 2)
    if node.has(8):
        total = emit("Add", total, reshape(emit, node.inputs[8], -1, *ones))
    filters = node.inputs[4]
    if node.rank(4) == 1:
        filters = reshape(emit, filters, *_scalar_or(-1, *ones)(node.shape(4)[0]))
    scales = (node.inputs[1], filters, node.inputs[6])
    return _rescaled(node, emit, total, scales, 7, node.dtype(7))


def _integers(node: Node) -> str:
    """The shapes must be known; of a convolution 1 to 3 spatial axes, in which its windows fit."""
    requantises = node.proto.op_type.startswith("QLinear")
    refused = _static(node) or (_nonzero(node, _RESULT_SCALE) if requantises else "")
    if refused or "Conv" not in node.proto.op_type:
        return refused
    if node.opset < STEPS_SINCE:
        return f"it needs opset {STEPS_SINCE}"
    return one_to_three_axes(node) or fits(node, 3 if requantises else 1)


def _encoding(condition: Condition, expand: Expand) -> Operator:
    return Operator(Level.FORWARD_ONLY, condition=condition, expand=expand, encodes=True)


OPERATORS: dict[str, Operator] = {
    "ConvInteger": Operator(
        condition=_integers, expand=lambda node, emit: _convolution(node, emit, (0, 1, 2, 3))
    ),
    "DequantizeLinear": Operator(condition=_dequantizes, expand=_dequantize),
    "DynamicQuantizeLinear": _encoding(_static, _dynamic),
    "MatMulInteger": Operator(
        condition=_integers, expand=lambda node, emit: _product(node, emit, (0, 1, 2, 3))
    ),
    "QLinearConv": _encoding(_integers, _qlinear_convolution),
    "QLinearMatMul": _encoding(_integers, _qlinear_product),
    "QuantizeLinear": _encoding(_quantizes, _quantize),
}
