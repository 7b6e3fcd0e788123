"""Activations."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.dialect.elements import pointwise
from odtc.dialect.elements.prelu import prelu
from odtc.frontend.operators.operator import Convert, Emit, Level, Node, Operator, unary


def _flat_before_13(node: Node, emit: Emit) -> str | None:
    """Before opset 13 the softmax is over all dimensions from `axis` on."""
    if node.opset >= 13:
        return None
    shape = node.shape()
    axis = node.attrs.get("axis", 1) % len(shape)
    if math.prod(shape[axis:]) == shape[-1] and axis == len(shape) - 1:
        return None
    rows = [math.prod(shape[:axis]), math.prod(shape[axis:])]
    flat = emit(
        node.proto.op_type, emit("Reshape", node.inputs[0], np.array(rows, np.int64)), axis=1
    )
    return emit("Reshape", flat, np.array(shape, np.int64))


def _along_axis(build: Callable[..., relax.Expr]) -> Convert:
    def convert(_: relax.BlockBuilder, node: Node, inputs: Sequence[Any]) -> relax.Expr:
        axis = node.attrs.get("axis", 1 if node.opset < 13 else -1)
        return build(inputs[0], axis=axis % node.rank())

    return convert


def _hardmax(builder: relax.BlockBuilder, node: Node, inputs: Sequence[Any]) -> relax.Expr:
    """One at the first maximum along the axis, zero elsewhere."""
    shape, dtype = node.shape(), node.dtype()
    axis = node.attrs.get("axis", 1 if node.opset < 13 else -1) % len(shape)
    places = np.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    first = builder.emit(R.argmax(inputs[0], axis=axis, keepdims=True))
    return R.astype(R.equal(first, relax.const(places, "int64")), dtype)


def _with(build: Callable[..., relax.Expr], **defaults: float) -> Convert:
    """An operator whose numbers are the node's attributes of the same names."""

    def convert(_: relax.BlockBuilder, node: Node, inputs: Sequence[Any]) -> relax.Expr:
        return build(inputs[0], **{k: float(node.attrs.get(k, v)) for k, v in defaults.items()})

    return convert


def _elu(x: relax.Expr, alpha: float) -> relax.Expr:
    return pointwise.elu(x, alpha=alpha, gamma=1.0, rate=1.0)


def _selu(x: relax.Expr, alpha: float, gamma: float) -> relax.Expr:
    return pointwise.elu(x, alpha=alpha, gamma=gamma, rate=1.0)


def _celu(x: relax.Expr, alpha: float) -> relax.Expr:
    return pointwise.elu(x, alpha=alpha, gamma=1.0, rate=1.0 / alpha)


def _gelu(_: relax.BlockBuilder, node: Node, inputs: Sequence[Any]) -> relax.Expr:
    by_tanh = node.attrs.get("approximate", "none") == "tanh"
    return (pointwise.gelu_tanh if by_tanh else pointwise.gelu)(inputs[0])


def _positive(default: float) -> Callable[[Node], str]:
    def condition(node: Node) -> str:
        """Alpha must be positive."""
        alpha = node.attrs.get("alpha", default)
        return "" if alpha > 0 else f"alpha must be positive; it is {alpha}"

    return condition


def _negative_slope(node: Node, emit: Emit) -> str | None:
    """A LeakyRelu whose sides cannot be told apart by the result's sign."""
    alpha = node.attrs.get("alpha", 0.01)
    return emit("PRelu", node.inputs[0], np.array([alpha], np.float32)) if alpha < 0 else None


def _gated(node: Node, emit: Emit) -> str:
    gate = emit("Swish", node.inputs[0], alpha=node.attrs.get("alpha", 1.0))
    return emit("Mul", gate, node.inputs[1])


def _slope_fits(node: Node) -> str:
    """The slope must broadcast to the input."""
    shape, slope = (node.graph.shapes.get(name) for name in node.inputs)
    if shape is None or slope is None:
        return ""
    ends = zip(reversed(slope), reversed(shape), strict=False)
    if len(slope) <= len(shape) and all(ours in (1, size) for ours, size in ends):
        return ""
    return f"the slope {list(slope)} does not broadcast to the input {list(shape)}"


OPERATORS: dict[str, Operator] = {
    "Celu": Operator(condition=_positive(1.0), convert=_with(_celu, alpha=1.0)),
    "Elu": Operator(condition=_positive(1.0), convert=_with(_elu, alpha=1.0)),
    "Gelu": Operator(convert=_gelu),
    "HardSigmoid": Operator(convert=_with(pointwise.hard_sigmoid, alpha=0.2, beta=0.5)),
    "HardSwish": Operator(convert=unary(pointwise.hard_swish)),
    "Hardmax": Operator(Level.FORWARD_ONLY, expand=_flat_before_13, convert=_hardmax),
    "LeakyRelu": Operator(expand=_negative_slope, convert=_with(pointwise.leaky_relu, alpha=0.01)),
    "LogSoftmax": Operator(expand=_flat_before_13, convert=_along_axis(R.nn.log_softmax)),
    "Mish": Operator(convert=unary(pointwise.mish)),
    "PRelu": Operator(condition=_slope_fits, convert=lambda _, __, inputs: prelu(*inputs)),
    "Relu": Operator(convert=unary(R.nn.relu)),
    "Selu": Operator(
        condition=_positive(1.0),
        convert=_with(_selu, alpha=1.67326319217681884765625, gamma=1.05070102214813232421875),
    ),
    "Shrink": Operator(convert=_with(pointwise.shrink, lambd=0.5, bias=0.0)),
    "Sigmoid": Operator(convert=unary(R.sigmoid)),
    "Softmax": Operator(expand=_flat_before_13, convert=_along_axis(R.nn.softmax)),
    "Softplus": Operator(convert=unary(pointwise.softplus)),
    "Softsign": Operator(convert=unary(pointwise.softsign)),
    "SwiGLU": Operator(expand=_gated),
    "Swish": Operator(convert=_with(pointwise.swish, alpha=1.0)),
    "Tanh": Operator(convert=unary(R.tanh)),
    "ThresholdedRelu": Operator(convert=_with(pointwise.thresholded_relu, alpha=1.0)),
}
