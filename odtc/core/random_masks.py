"""Dropout that an exporter spelled out: a product with a random mask whose mean is one.

PyTorch writes `nn.Dropout2d` and stochastic depth so:

    keep = Cast(Less(RandomUniformLike(data), p))      or Bernoulli(p)
    result = Mul(data, Div(keep, p))

Of a random tensor in any other place nothing is said here: some models draw numbers by nature.
"""

import math
from collections.abc import Callable, Mapping

import numpy as np
import onnx
from onnx import numpy_helper

_UNIFORM = ("RandomUniform", "RandomUniformLike")
_BELOW, _ABOVE = ("Less", "LessOrEqual"), ("Greater", "GreaterOrEqual")
# They change neither whether an element is kept nor, but for a copy, the mean.
_LIKE = ("Cast", "CastLike", "Identity", "Reshape", "Unsqueeze", "Squeeze", "Expand")
# Exporters write 1 - p in float32, and its inverse.
_NEAR = 1e-3

Producers = Mapping[str, onnx.NodeProto]
Constant = Callable[[str], float | None]


def constants_of(producers: Producers, stored: Mapping[str, onnx.TensorProto]) -> Constant:
    """What gives the number that a tensor holds, of one element or all alike; None if unknown.

    Args:
        producers: the nodes that can be seen, by each of their outputs.
        stored: the initializers that can be seen, by name.
    """

    def value_of(name: str) -> float | None:
        node = producers.get(name)
        if node is not None and node.op_type in _LIKE:
            return value_of(node.input[0])
        if node is not None and node.op_type == "ConstantOfShape":
            return _filled(node)
        tensor = stored.get(name) if node is None else _constant_tensor(node)
        return None if tensor is None else _number(tensor)

    return value_of


def dropped_out(node: onnx.NodeProto, producers: Producers, constant: Constant) -> str | None:
    """The data of a product with such a mask; None where the node is something else."""
    if node.op_type != "Mul":
        return None
    for mask, data in (node.input, reversed(node.input)):
        mean = _mask_mean(mask, producers, constant)
        if mean is not None and math.isclose(mean, 1.0, rel_tol=_NEAR):
            return data
    return None


def _mask_mean(name: str, producers: Producers, constant: Constant) -> float | None:
    """The mean of a random mask that may be scaled; None where the tensor is none."""
    scale = 1.0
    while (node := producers.get(name)) is not None:
        kept = _kept_share(node, producers, constant)
        if kept is not None:
            return kept * scale
        if node.op_type in _LIKE:
            name = node.input[0]
            continue
        factor = constant(node.input[1]) if node.op_type in ("Div", "Mul") else None
        if not factor:
            return None
        scale = scale / factor if node.op_type == "Div" else scale * factor
        name = node.input[0]
    return None


def _kept_share(node: onnx.NodeProto, producers: Producers, constant: Constant) -> float | None:
    """The share of ones that a node draws; None where it draws none."""
    if node.op_type == "Bernoulli":
        return constant(node.input[0])
    if node.op_type not in (*_BELOW, *_ABOVE):
        return None
    drawn = producers.get(node.input[0])
    limit = constant(node.input[1])
    if drawn is None or drawn.op_type not in _UNIFORM or limit is None:
        return None
    bounds = {item.name: item.f for item in drawn.attribute if item.name in ("low", "high")}
    if (bounds.get("low", 0.0), bounds.get("high", 1.0)) != (0.0, 1.0):
        return None
    return limit if node.op_type in _BELOW else 1.0 - limit


def _filled(node: onnx.NodeProto) -> float | None:
    given = [item.t for item in node.attribute if item.name == "value"]
    return _number(given[0]) if given else 0.0


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
    if math.prod(tensor.dims) != 1 or tensor.data_type == onnx.TensorProto.STRING:
        return None
    return float(numpy_helper.to_array(tensor).reshape(()))
