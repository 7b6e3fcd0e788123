"""Masks that stand for dropout in a file: random zeros and ones that something is multiplied by.

PyTorch writes `nn.Dropout2d` and stochastic depth so, and people write dropout by hand:

    keep = Cast(Less(RandomUniformLike(data), p))      or Bernoulli(p), or Floor(Add(uniform, p))
    result = Mul(data, Div(keep, p))

Inference takes the mean of such a mask, as `evaluate` does. What is drawn otherwise is a part of
the model.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper, numpy_helper

_UNIFORM = ("RandomUniform", "RandomUniformLike")
# Where the number stands that uniform ones have to be below for the comparison to hold.
_BELOW = {"Less": 1, "LessOrEqual": 1, "Greater": 0, "GreaterOrEqual": 0}
# They change neither what an element is nor, but for a copy, the mean.
LIKE = ("Cast", "CastLike", "Identity", "Reshape", "Unsqueeze", "Squeeze", "Expand")
# What a mask may go into, for its mean to have a meaning.
LINEAR = frozenset({"Add", "Cast", "CastLike", "Div", "Mul", "Sub"})
# Elements of a constant that may be looked at; a share is no weight.
_MOST = 1 << 20

Producers = Mapping[str, onnx.NodeProto]
Constant = Callable[[str], float | None]


@dataclass(frozen=True)
class Mask:
    """Random zeros and ones, as a node makes them.

    Attributes:
        share: of ones.
        drawn: the node that draws.
    """

    share: float
    drawn: onnx.NodeProto


def constants_of(producers: Producers, stored: Mapping[str, onnx.TensorProto]) -> Constant:
    """A function from a tensor's name to the number that all its elements are; None if unknown.

    Args:
        producers: the nodes that can be seen, by each of their outputs.
        stored: the initializers that can be seen, by name.
    """

    def value_of(name: str) -> float | None:
        node = producers.get(name)
        if node is not None and node.op_type in LIKE:
            return value_of(node.input[0])
        if node is not None and node.op_type == "ConstantOfShape":
            given = [item.t for item in node.attribute if item.name == "value"]
            return _number(given[0]) if given else 0.0
        tensor = stored.get(name) if node is None else _constant_tensor(node)
        return None if tensor is None else _number(tensor)

    return value_of


def mask_of(node: onnx.NodeProto, producers: Producers, constant: Constant) -> Mask | None:
    """The mask that a node gives; None where it gives something else."""
    rule = _FORMS.get(node.op_type)
    found = rule(node, producers, constant) if rule else None
    return found if found is not None and 0 < found.share <= 1 else None


def mean_of(node: onnx.NodeProto, mask: Mask) -> list[onnx.NodeProto]:
    """Nodes that give the mean of a mask in its place, in its shape and type."""
    output, drawn = node.output[0], mask.drawn
    names = [f"{output}/{part}" for part in ("mean", "cast", "shape")]
    mean, cast, shape = names
    value = numpy_helper.from_array(np.array(mask.share, np.float32))
    like = {item.name: item.i for item in node.attribute if item.name in ("to", "dtype")}
    if node.op_type == "CastLike":
        cast_node = helper.make_node("CastLike", [mean, node.input[1]], [cast])
    elif node.op_type == "Bernoulli" and not like:
        cast_node = helper.make_node("CastLike", [mean, node.input[0]], [cast])
    else:
        cast_node = helper.make_node(
            "Cast", [mean], [cast], to=next(iter(like.values()), onnx.TensorProto.FLOAT)
        )
    sizes = [list(item.ints) for item in drawn.attribute if item.name == "shape"]
    shape_node = (
        helper.make_node("Constant", [], [shape], value_ints=sizes[0])
        if sizes
        else helper.make_node("Shape", [drawn.input[0]], [shape])
    )
    return [
        helper.make_node("Constant", [], [mean], value=value),
        cast_node,
        shape_node,
        helper.make_node("Expand", [cast, shape], [output], node.name),
    ]


def _cast(node: onnx.NodeProto, producers: Producers, constant: Constant) -> Mask | None:
    """Of a comparison of uniform numbers and a number."""
    compared = producers.get(node.input[0])
    below = _BELOW.get(compared.op_type) if compared is not None else None
    if compared is None or below is None:
        return None
    for slot, name in enumerate(compared.input):
        drawn, limit = _uniform(producers.get(name)), constant(compared.input[1 - slot])
        if drawn is not None and limit is not None:
            return Mask(limit if slot != below else 1.0 - limit, drawn)
    return None


def _floor(node: onnx.NodeProto, producers: Producers, constant: Constant) -> Mask | None:
    """Of uniform numbers and a share, added."""
    total = producers.get(node.input[0])
    if total is None or total.op_type != "Add":
        return None
    for slot, name in enumerate(total.input):
        drawn, share = _uniform(producers.get(name)), constant(total.input[1 - slot])
        if drawn is not None and share is not None:
            return Mask(share, drawn)
    return None


def _bernoulli(node: onnx.NodeProto, _: Producers, constant: Constant) -> Mask | None:
    share = constant(node.input[0])
    return None if share is None else Mask(share, node)


_FORMS = {"Bernoulli": _bernoulli, "Cast": _cast, "CastLike": _cast, "Floor": _floor}


def _uniform(node: onnx.NodeProto | None) -> onnx.NodeProto | None:
    """The node, if it draws numbers in [0, 1)."""
    if node is None or node.op_type not in _UNIFORM:
        return None
    bounds = {item.name: item.f for item in node.attribute if item.name in ("low", "high")}
    return node if (bounds.get("low", 0.0), bounds.get("high", 1.0)) == (0.0, 1.0) else None


def _constant_tensor(node: onnx.NodeProto) -> onnx.TensorProto | None:
    """The tensor of a Constant node; those of lists and text are no numbers here."""
    if node.op_type != "Constant" or len(node.attribute) != 1:
        return None
    (held,) = node.attribute
    if held.name in ("value_float", "value_int"):
        value = held.f if held.name == "value_float" else held.i
        return numpy_helper.from_array(np.array(value))
    return held.t if held.name == "value" else None


def _number(tensor: onnx.TensorProto) -> float | None:
    # One that lies elsewhere is a weight.
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return None
    if not 0 < math.prod(tensor.dims) <= _MOST or tensor.data_type == onnx.TensorProto.STRING:
        return None
    array = numpy_helper.to_array(tensor).astype(np.float64).reshape(-1)
    return float(array[0]) if (array == array[0]).all() else None
