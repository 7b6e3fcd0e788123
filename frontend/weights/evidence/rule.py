"""Classifies a tensor by its use, where the file says nothing.

A tensor is a parameter if one of the nodes that meet it with data applies it as layers do:

    weight   of Conv, ConvTranspose, Gemm, MatMul, Einsum, GRU, LSTM, RNN
    bias     of these, in an input of its own, or added to what they give: one element per output
    scale    of a normalisation or of a layer, and the shift after it
    slope    of a PRelu
    table    that a Gather looks data up in, or that is added after a layer
    token    that is put beside others

and its values are not those of a mask, a filter bank, a position table or the like (`values`). Two
things count only where the name is an entry of a state dict: single numbers, as exporters write
many of these down, and tables and tokens that are added or joined. All else is a constant: what is
subtracted from an input, states that recurrent layers start from, limits, strides.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import onnx

from odtc.frontend.weights.evidence.uses import PASSES_ON, PRODUCTS, Read, Uses
from odtc.frontend.weights.evidence.values import is_filled, pattern
from odtc.frontend.weights.finding import Finding, Kind, constant, parameter

# Inputs that say how an operator works: never weights, though they may be float tensors.
SETTINGS: Mapping[str, tuple[int, ...]] = {
    "Clip": (1, 2),
    "DequantizeLinear": (1,),
    "Dropout": (1,),
    "MatMulNBits": (2, 3),
    "NegativeLogLikelihoodLoss": (2,),
    "NonMaxSuppression": (0, 1, 3, 4),
    "NonZero": (0,),
    "OneHot": (2,),
    "Pad": (2,),
    "QLinearConv": (1, 4, 6),
    "QLinearMatMul": (1, 4, 6),
    "QuantizeLinear": (1,),
    "Resize": (1, 2),
    "STFT": (2,),
    "SoftmaxCrossEntropyLoss": (2,),
    "Unique": (0,),
    "Upsample": (1,),
}
_BIASES = {"Conv": (2,), "ConvTranspose": (2,), "DeformConv": (3,), "GRU": (3,), "Gemm": (2,)}
_BIASES |= {"MatMulNBits": (5,)}
_BIASES |= {"LSTM": (3, 7), "RNN": (3,)}
_STATES = {"GRU": (5,), "LSTM": (5, 6), "RNN": (5,)}
_NORMS = {
    "BatchNormalization": (1, 2),
    "GroupNormalization": (1, 2),
    "InstanceNormalization": (1, 2),
    "LayerNormalization": (1, 2),
    "RMSNormalization": (1,),
}
_STATISTICS = (3, 4)
# A normalisation that is spelled out divides by one of these.
_DIVISORS = frozenset("Pow ReduceL1 ReduceL2 ReduceMean ReduceSum Reciprocal Sqrt".split())
_DEEPEST = 6
_NOT_APPLIED = "it is applied to no layer's result as a bias, scale or table is"


@dataclass(frozen=True)
class Stored:
    """A tensor that is judged.

    Attributes:
        name: of the tensor.
        value: of it.
        is_entry: whether its name is an entry of a state dict or a variable.
        is_made_up: whether its name is none, in a file where those of parameters are.
        is_written: whether it is written as a number of the program, in a Constant node.
    """

    name: str
    value: np.ndarray
    is_entry: bool = False
    is_made_up: bool = False
    is_written: bool = False


def judge(stored: Stored, uses: Uses) -> Finding:
    """Classifies a float tensor by its use."""
    found = [_judge_read(stored, read, uses) for read in uses.reads_of(stored.name)]
    if _SETTING in found:
        return _SETTING
    if not found:
        return _UNREAD
    best = next((each for each in found if each.kind is not Kind.CONSTANT), found[0])
    if best.kind is Kind.BUFFER:
        return best
    told = pattern(stored.value)
    if best.kind is Kind.CONSTANT:
        return _quiet(stored, constant(told, is_doubtful=best.is_doubtful) if told else best)
    if stored.is_made_up and stored.is_written and not told:
        told = "is written as a number of the program"
    return constant(f"{best.reason}, but {told}") if told else best


_SETTING = constant("it says how an operator works", is_doubtful=False)
_SCALES = constant("a number that scales a layer's result, as those of programs do")
_UNREAD = constant("no node reads it with data", is_doubtful=False)


def _quiet(stored: Stored, found: Finding) -> Finding:
    """Single numbers without a name, and tensors of one value, are worth no note."""
    is_tensor = stored.value.size > 1 and not is_filled(stored.value)
    is_scale = found == _SCALES and not stored.is_made_up and not stored.is_written
    worth = found.is_doubtful and (stored.is_entry or is_tensor or is_scale)
    return found if worth else constant(found.reason, is_doubtful=False)


def _judge_read(stored: Stored, read: Read, uses: Uses) -> Finding:
    op_type, slot = read.node.op_type, read.slot
    for slots, answer in _BY_SLOT:
        if slot in slots.get(op_type, ()):
            return answer(stored, read)
    by_use = _BY_USE.get(op_type)
    return by_use(stored, read, uses) if by_use else constant(f"read by {op_type}")


def _setting(_: Stored, __: Read) -> Finding:
    return _SETTING


def _weight(stored: Stored, read: Read) -> Finding:
    if stored.value.size == 1 and not stored.is_entry:
        return constant("a single number", is_doubtful=False)
    return parameter(f"a weight of {read.node.op_type}")


def _own_bias(_: Stored, read: Read) -> Finding:
    return parameter(f"a bias of {read.node.op_type}")


def _statistic(_: Stored, __: Read) -> Finding:
    return Finding(Kind.BUFFER, "a running statistic of BatchNormalization")


def _state(_: Stored, read: Read) -> Finding:
    return constant(f"the state that {read.node.op_type} starts from")


def _norm(stored: Stored, read: Read) -> Finding:
    if is_filled(stored.value) and stored.is_made_up:
        return constant(f"{read.node.op_type} without parameters", is_doubtful=False)
    return parameter(f"a scale or shift of {read.node.op_type}")


def _slope(_: Stored, __: Read) -> Finding:
    return parameter("a slope of PRelu")


def _table(_: Stored, __: Read) -> Finding:
    return parameter("a table that Gather looks data up in")


_Slots = Mapping[str, tuple[int, ...]]
_BY_SLOT: tuple[tuple[_Slots, Callable[[Stored, Read], Finding]], ...] = (
    (SETTINGS, _setting),
    (PRODUCTS, _weight),
    (_BIASES, _own_bias),
    ({"BatchNormalization": _STATISTICS}, _statistic),
    (_STATES, _state),
    (_NORMS, _norm),
    ({"PRelu": (1,)}, _slope),
    ({"Gather": (0,)}, _table),
)


def _added(stored: Stored, read: Read, uses: Uses) -> Finding:
    """A bias after a product, the shift of a scale, or a table of positions."""
    other = read.others[0] if read.others else read.node.input[1 - read.slot]
    maker = uses.source(other)
    if maker is not None and _fits(stored.value, maker, uses):
        return parameter(f"a bias behind {maker.op_type}")
    if maker is not None and _is_scaled(stored.value, maker, uses, read.node):
        return parameter("a shift behind a scale")
    is_table = stored.value.size > 1 and not _is_output(read.node, uses)
    if other in uses.learned and stored.is_entry and is_table:
        return parameter("a table that is added behind a layer", is_doubtful=True)
    return constant(f"added, but {_NOT_APPLIED}")


def _scaled(stored: Stored, read: Read, uses: Uses) -> Finding:
    """The scale of a normalisation or of a layer."""
    other = read.others[0] if read.others else read.node.input[1 - read.slot]
    if stored.value.size == 1:
        return _number(stored, other, uses)
    if not _is_row(stored.value):
        return constant(f"multiplied, but {_NOT_APPLIED}")
    if _is_normalized(other, uses):
        return parameter("a scale of a normalisation")
    if other in uses.learned and _has_shift(stored.value, read.node, uses):
        return parameter("a scale with a shift behind it")
    layer = _layer(other, uses)
    ends = _is_output(read.node, uses)
    if layer is not None and _fits(stored.value, layer, uses) and not ends:
        return parameter(f"a scale behind {layer.op_type}", is_doubtful=not stored.is_entry)
    return constant(f"multiplied, but {_NOT_APPLIED}")


def _number(stored: Stored, other: str, uses: Uses) -> Finding:
    """A single number that multiplies."""
    if other not in uses.learned:
        return constant("a single number")
    reason = "a number that scales a layer's result"
    return parameter(reason, is_doubtful=True) if stored.is_entry else _SCALES


def _subtracted(stored: Stored, read: Read, uses: Uses) -> Finding:
    """The shift of a normalisation that is written shift - mean * scale."""
    maker = uses.source(read.others[0]) if read.others else None
    if read.slot == 0 and maker is not None and _is_scaled(stored.value, maker, uses, read.node):
        return parameter("a shift behind a scale")
    return constant("a term of a difference")


def _joined(stored: Stored, read: Read, uses: Uses) -> Finding:
    """A token in front of others."""
    learned = any(name in uses.learned for name in read.others)
    is_token = stored.value.ndim == 3 and stored.value.shape[0] == 1
    if stored.is_entry and learned and is_token:
        return parameter("a token that is put beside others", is_doubtful=True)
    return constant("put beside other values")


_BY_USE: Mapping[str, Callable[[Stored, Read, Uses], Finding]] = {
    "Add": _added,
    "Concat": _joined,
    "Mul": _scaled,
    "Sub": _subtracted,
}


def _has_shift(value: np.ndarray, node: onnx.NodeProto, uses: Uses) -> bool:
    """Whether as many stored numbers are added to a product, and that is not the output."""
    return any(
        each.node.op_type == "Add"
        and any(_is_as_long(uses.origin(name), value) for name in each.others if name in uses.still)
        and not _is_output(each.node, uses)
        for each in uses.readers.get(node.output[0], ())
    )


def _is_row(value: np.ndarray) -> bool:
    """Whether at most one axis is longer than one."""
    return sum(size != 1 for size in value.shape) <= 1


def _fits(value: np.ndarray, maker: onnx.NodeProto, uses: Uses) -> bool:
    """Whether a tensor has an element for each output of a layer with something stored."""
    slots = PRODUCTS.get(maker.op_type, (0,) if maker.op_type == "Gather" else ())
    if not slots or value.ndim == 0:
        return False
    stored = [uses.origin(maker.input[s]) for s in slots if maker.input[s] in uses.still]
    sizes = {size for weight in stored if weight is not None for size in _outputs(weight, maker)}
    is_wide = maker.op_type in ("Einsum", "MatMul") and value.ndim == 2
    return value.size in sizes and (_is_row(value) or is_wide)


def _outputs(weight: np.ndarray, maker: onnx.NodeProto) -> set[int]:
    """How many outputs a product with a weight may have: transposed weights count as well."""
    group = next((item.i for item in maker.attribute if item.name == "group"), 1)
    pairs = zip(weight.shape, weight.shape[1:], strict=False)
    return {*weight.shape[:2], *weight.shape[-1:], *(a * b for a, b in pairs)} | (
        {weight.shape[1] * group} if weight.ndim > 1 else set()
    )


def _layer(name: str, uses: Uses) -> onnx.NodeProto | None:
    """The product that makes a tensor, its bias aside."""
    maker = uses.source(name)
    if maker is not None and maker.op_type == "Add":
        data = [each for each in maker.input if each not in uses.still]
        maker = uses.source(data[0]) if len(data) == 1 else None
    return maker


def _is_output(node: onnx.NodeProto, uses: Uses) -> bool:
    """Whether nothing but the caller reads a node's result, or only lays it out anew."""
    for _ in range(_DEEPEST):
        readers = uses.readers.get(node.output[0], [])
        if len(readers) != 1 or readers[0].node.op_type not in PASSES_ON:
            return not readers
        node = readers[0].node
    return False


def _is_normalized(name: str, uses: Uses) -> bool:
    """Whether a tensor was divided by what was measured of data, or is that divisor's inverse."""
    maker = uses.source(name)
    if maker is None:
        return False
    if maker.op_type in _NORMS or maker.op_type == "MeanVarianceNormalization":
        return True
    if maker.op_type == "Div":
        return _measures(maker.input[1], uses)
    return maker.op_type in ("Mul", "Reciprocal") and any(
        _inverts(each, uses) for each in (*maker.input, *maker.output)
    )


def _inverts(name: str, uses: Uses) -> bool:
    """Whether a tensor is one divided by what was measured of data."""
    maker = uses.source(name)
    if maker is None or name in uses.still:
        return False
    if maker.op_type == "Reciprocal" or (maker.op_type == "Div" and maker.input[0] in uses.still):
        return _measures(maker.input[-1], uses)
    return maker.op_type == "Pow" and _measures(maker.input[0], uses)


def _measures(name: str, uses: Uses) -> bool:
    """Whether a tensor is a root, a norm or a mean of data, with something added at most."""
    for _ in range(_DEEPEST):
        maker = uses.source(name)
        if maker is None or name in uses.still:
            return False
        if maker.op_type in _DIVISORS:
            return True
        data = [each for each in maker.input if each and each not in uses.still]
        if len(data) != 1:
            return False
        name = data[0]
    return False


def _is_scaled(
    value: np.ndarray, maker: onnx.NodeProto, uses: Uses, reader: onnx.NodeProto
) -> bool:
    """Whether a tensor was normalised, or multiplied by a row of this many numbers after that.

    At the output a row may be the deviation of what is predicted, unless something was normalised.
    """
    if maker.op_type in _NORMS:
        return _is_row(value)
    for _ in range(_DEEPEST):
        if maker.op_type not in ("Add", "Mul"):
            return False
        rows = [uses.origin(name) for name in maker.input if name in uses.still]
        if maker.op_type == "Mul" and any(_is_as_long(row, value) for row in rows):
            data = next((name for name in maker.input if name not in uses.still), "")
            inside = data in uses.learned and not _is_output(reader, uses)
            return inside or _is_normalized(data, uses)
        makers = [uses.source(name) for name in maker.input if name not in uses.still]
        deeper = next((each for each in makers if each is not None and each.op_type == "Mul"), None)
        if deeper is None:
            return False
        maker = deeper
    return False


def _is_as_long(row: np.ndarray | None, value: np.ndarray) -> bool:
    return row is not None and row.size == value.size > 1
