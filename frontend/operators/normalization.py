"""Normalisations."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.dialect.elements.pointwise import positive_power
from odtc.dialect.images.window_sum import window_sum
from odtc.frontend.operators.operator import Emit, Node, Operator
from odtc.frontend.operators.reduction import reduce

# Added to norms, which a tensor of zeros is divided by.
TINY = 1e-30


def _first_output(node: Node) -> str:
    """Only the first output can be used."""
    read = [name for slot, name in enumerate(node.proto.output) if slot and node.is_read(slot)]
    return f"only its first output can be used; {read[0]!r} is read too" if read else ""


def _per_channel(node: Node) -> str:
    """Only the first output can be used; statistics are per channel."""
    if node.attrs.get("spatial", 1) != 1:
        return "statistics for each element (spatial=0) are not supported"
    return _first_output(node)


def _batch_norm(_: relax.BlockBuilder, node: Node, inputs: Sequence[Any]) -> list:
    """ONNX keeps `momentum` of the old statistics, Relax takes `momentum` of the new ones."""
    normal = R.nn.batch_norm(
        *inputs,
        axis=1,
        epsilon=node.attrs.get("epsilon", 1e-5),
        momentum=1.0 - node.attrs.get("momentum", 0.9),
        training=False,
    )
    return [relax.TupleGetItem(normal, 0)]


def _last_axes(node: Node) -> list[int]:
    return list(range(node.attrs.get("axis", -1) % node.rank(), node.rank()))


def _spelled_out(node: Node, emit: Emit) -> Sequence[str] | None:
    """Layer normalisation in simpler operators, where its statistics are read too."""
    if not node.is_read(1) and not node.is_read(2):
        return None
    data, axes = node.inputs[0], _last_axes(node)
    mean = reduce(node, emit, "ReduceMean", data, axes)
    centred = emit("Sub", data, mean)
    variance = reduce(node, emit, "ReduceMean", emit("Mul", centred, centred), axes)
    root = emit("Sqrt", emit("Add", variance, float(node.attrs.get("epsilon", 1e-5))))
    inverse = emit("Div", 1.0, root)
    result = emit("Mul", emit("Mul", centred, inverse), node.inputs[1])
    if node.has(2):
        result = emit("Add", result, node.inputs[2])
    return [result, mean, inverse][: len(node.proto.output)]


def _normalized_shape(node: Node, data: relax.Expr) -> list[int]:
    return [int(data.ty.shape[axis]) for axis in _last_axes(node)]


def _full(builder: relax.BlockBuilder, value: relax.Expr, shape: Sequence[int]) -> relax.Expr:
    """A scale or bias at the full size of what it is broadcast to."""
    if [int(size) for size in value.ty.shape] == list(shape):
        return value
    return builder.emit(R.broadcast_to(value, shape))


def _layer_norm(builder: relax.BlockBuilder, node: Node, inputs: Sequence[Any]) -> list:
    data, scale, bias = [*inputs, None][:3]
    shape = _normalized_shape(node, data)
    bias = relax.const(np.zeros(shape, np.float32)) if bias is None else bias
    normal = R.nn.layer_norm(
        data,
        _full(builder, scale, shape),
        _full(builder, bias, shape),
        axes=_last_axes(node),
        epsilon=node.attrs.get("epsilon", 1e-5),
    )
    return [normal]


def _rms_norm(builder: relax.BlockBuilder, node: Node, inputs: Sequence[Any]) -> relax.Expr:
    data, scale = inputs
    weight = _full(builder, scale, _normalized_shape(node, data))
    # One axis is left in front: TVM's kernel wants one.
    rows = builder.emit(R.expand_dims(data, 0))
    axes = [axis + 1 for axis in _last_axes(node)]
    epsilon = node.attrs.get("epsilon", 1e-5)
    normal = builder.emit(R.nn.rms_norm(rows, weight, axes=axes, epsilon=epsilon))
    return R.reshape(normal, data.ty.shape)


def _group_norm(_: relax.BlockBuilder, node: Node, inputs: Sequence[Any]) -> relax.Expr:
    """InstanceNormalization has a group for each channel."""
    data, scale, bias = inputs
    groups = node.attrs.get("num_groups", int(data.ty.shape[1]))
    axes = list(range(2, len(data.ty.shape)))
    epsilon = node.attrs.get("epsilon", 1e-5)
    return R.nn.group_norm(data, scale, bias, groups, channel_axis=1, axes=axes, epsilon=epsilon)


def _divides(node: Node) -> str:
    """The groups must divide the channels."""
    groups = node.attrs.get("num_groups", 1)
    if node.rank() > 1 and (groups < 1 or node.shape()[1] % groups):
        return f"{groups} groups do not divide {node.shape()[1]} channels"
    return ""


def _mean_variance(node: Node, emit: Emit) -> str:
    axes = [axis % node.rank() for axis in node.attrs.get("axes", [0, 2, 3])]
    data = node.inputs[0]
    centred = emit("Sub", data, reduce(node, emit, "ReduceMean", data, axes))
    variance = reduce(node, emit, "ReduceMean", emit("Mul", centred, centred), axes)
    return emit("Div", centred, emit("Add", emit("Sqrt", variance), 1e-9))


def _lp_norm(node: Node, emit: Emit) -> str:
    data, axis = node.inputs[0], node.attrs.get("axis", -1) % node.rank()
    if node.attrs.get("p", 2) == 1:
        norm = reduce(node, emit, "ReduceSum", emit("Abs", data), [axis])
        return emit("Div", data, emit("Add", norm, TINY))
    squares = reduce(node, emit, "ReduceSum", emit("Mul", data, data), [axis])
    return emit("Div", data, emit("Sqrt", emit("Add", squares, TINY)))


def _lrn(builder: relax.BlockBuilder, node: Node, inputs: Sequence[Any]) -> relax.Expr:
    """X * (bias + alpha/size * window sum of x²)^-beta.

    The pooling that the importer makes of the sum has no gradient; the backward reads x and the
    power, which also says what it is a power of.
    """
    shape, size = node.shape(), node.attrs["size"]
    data = builder.emit(R.reshape(inputs[0], (*shape[:2], math.prod(shape[2:]))))
    squares = builder.emit(R.multiply(data, data))
    window = builder.emit(window_sum(squares, before=(size - 1) // 2, after=size // 2))
    share = relax.const(np.float32(node.attrs.get("alpha", 1e-4) / size))
    bias = relax.const(np.float32(node.attrs.get("bias", 1.0)))
    base = builder.emit(R.add(builder.emit(R.multiply(window, share)), bias))
    scale = builder.emit(positive_power(base, exponent=-float(node.attrs.get("beta", 0.75))))
    return R.reshape(builder.emit(R.multiply(data, scale)), shape)


def _channels(node: Node) -> str:
    """The rank must be 2 or more."""
    return "" if node.rank() >= 2 else "the input has no channels"


OPERATORS: dict[str, Operator] = {
    "BatchNormalization": Operator(condition=_per_channel, convert=_batch_norm),
    "GroupNormalization": Operator(condition=_divides, convert=_group_norm),
    "InstanceNormalization": Operator(convert=_group_norm),
    "LRN": Operator(condition=_channels, convert=_lrn),
    "LayerNormalization": Operator(expand=_spelled_out, convert=_layer_norm),
    "LpNormalization": Operator(expand=_lp_norm),
    "MeanVarianceNormalization": Operator(expand=_mean_variance),
    "RMSNormalization": Operator(convert=_rms_norm),
}
