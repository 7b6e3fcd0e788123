"""Operators on single elements, and reductions, as PyTorch functions."""

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from onnx import helper
from torch import Tensor

Attributes = dict[str, Any]
Op = Callable[..., Tensor]

# Names of numpy's dtypes are those of PyTorch's.
_UNSIGNED = {"uint16": torch.int32, "uint32": torch.int64, "uint64": torch.int64}


def _clip(attrs: Attributes, x: Tensor, low: Any = None, high: Any = None) -> Tensor:
    """Clamps; with the bounds that ReLU6 is exported with, it is ReLU6."""
    low, high = attrs.get("min", low), attrs.get("max", high)
    if low is None and high is None:
        return x
    if (low, high) == (0.0, 6.0) and x.is_floating_point():
        return F.relu6(x)
    return torch.clamp(x, low, high)


def _cast(attrs: Attributes, x: Tensor) -> Tensor:
    """To another type. Where this computes in double precision, a cast to single stays double."""
    name = helper.tensor_dtype_to_np_dtype(attrs["to"]).name
    if x.dtype == torch.float64 and name == "float32":
        return x
    return x.to(_UNSIGNED.get(name) or getattr(torch, name))


def _dequantize(attrs: Attributes, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    """With one scale, or one for each element of an axis."""
    shape = [1] * x.ndim
    shape[attrs.get("axis", 1) if scale.numel() > 1 else 0] = -1
    moved = x.to(scale.dtype) - (0 if zero is None else zero.to(scale.dtype).reshape(shape))
    return moved * scale.reshape(shape)


def _divide(x: Tensor, y: Tensor) -> Tensor:
    return torch.div(x, y) if x.is_floating_point() else torch.div(x, y, rounding_mode="trunc")


def _is_infinite(attrs: Attributes, x: Tensor) -> Tensor:
    above, below = (bool(attrs.get(f"detect_{sign}", 1)) for sign in ("positive", "negative"))
    return (torch.isposinf(x) & above) | (torch.isneginf(x) & below)


def _gelu(attrs: Attributes, x: Tensor) -> Tensor:
    return F.gelu(x, approximate=attrs.get("approximate", "none"))


def _hard_sigmoid(attrs: Attributes, x: Tensor) -> Tensor:
    alpha, beta = attrs.get("alpha", 0.2), attrs.get("beta", 0.5)
    return F.hardsigmoid((alpha * x + beta - 0.5) * 6.0)


def _hardmax(attrs: Attributes, x: Tensor) -> Tensor:
    axis = attrs.get("axis", -1)
    return torch.zeros_like(x).scatter(axis, x.argmax(axis, keepdim=True), 1.0)


def _prelu(x: Tensor, slope: Tensor) -> Tensor:
    return torch.where(x > 0, x, x * slope)


def _selu(attrs: Attributes, x: Tensor) -> Tensor:
    alpha = attrs.get("alpha", 1.67326319217681884765625)
    return attrs.get("gamma", 1.05070102214813232421875) * F.elu(x, alpha)


def _shrink(attrs: Attributes, x: Tensor) -> Tensor:
    limit, bias = attrs.get("lambd", 0.5), attrs.get("bias", 0.0)
    zero = torch.zeros_like(x)
    # As `torch.nn.functional.hardshrink`, which keeps what is not a number.
    return torch.where(x > limit, x - bias, torch.where(x >= -limit, zero, x + bias))


def _thresholded_relu(attrs: Attributes, x: Tensor) -> Tensor:
    return F.threshold(x, attrs.get("alpha", 1.0), 0.0)


def _swish(attrs: Attributes, x: Tensor) -> Tensor:
    return x * torch.sigmoid(attrs.get("alpha", 1.0) * x)


def _softmax(function: Callable[..., Tensor]) -> Op:
    return lambda attrs, x: function(x, attrs.get("axis", -1))


def _flattened(function: Callable[..., Tensor]) -> Op:
    """Before opset 13, softmax is over all dimensions from `axis` on."""

    def apply(attrs: Attributes, x: Tensor) -> Tensor:
        rows = math.prod(x.shape[: attrs.get("axis", 1) % x.ndim])
        return function(x.reshape(rows, -1), dim=1).reshape(x.shape)

    return apply


def _reduce(function: Callable[..., Tensor], identity: Callable[[Tensor], Tensor] | None = None):
    """A reduction; `identity` is what it makes of single elements, if that is not the element."""

    def apply(attrs: Attributes, x: Tensor, axes: Tensor | None = None) -> Tensor:
        listed = attrs.get("axes") if axes is None else axes.tolist()
        if not listed and attrs.get("noop_with_empty_axes"):
            return identity(x) if identity else x
        return function(x, listed or list(range(x.ndim)), keepdim=bool(attrs.get("keepdims", 1)))

    return apply


def _product(x: Tensor, axes: list[int], keepdim: bool) -> Tensor:
    for axis in sorted((axis % x.ndim for axis in axes), reverse=True):
        x = x.prod(axis, keepdim=keepdim)
    return x


def _norm(order: int) -> Callable[..., Tensor]:
    def apply(x: Tensor, axes: list[int], keepdim: bool) -> Tensor:
        return torch.linalg.vector_norm(x, order, axes, keepdim)

    return apply


def _log_sum(x: Tensor, axes: list[int], keepdim: bool) -> Tensor:
    return x.sum(axes, keepdim).log()


def _sum_square(x: Tensor, axes: list[int], keepdim: bool) -> Tensor:
    return x.square().sum(axes, keepdim)


PLAIN: dict[str, Op] = {
    "Abs": torch.abs,
    "Acos": torch.acos,
    "Acosh": torch.acosh,
    "Add": torch.add,
    "And": torch.logical_and,
    "Asin": torch.asin,
    "Asinh": torch.asinh,
    "Atan": torch.atan,
    "Atanh": torch.atanh,
    "BitwiseAnd": torch.bitwise_and,
    "BitwiseNot": torch.bitwise_not,
    "BitwiseOr": torch.bitwise_or,
    "BitwiseXor": torch.bitwise_xor,
    "CastLike": lambda x, other: x.to(other.dtype),
    "Ceil": torch.ceil,
    "Cos": torch.cos,
    "Cosh": torch.cosh,
    "Div": _divide,
    "Equal": torch.eq,
    "Erf": torch.erf,
    "Exp": torch.exp,
    "Floor": torch.floor,
    "Greater": torch.gt,
    "GreaterOrEqual": torch.ge,
    "HardSwish": F.hardswish,
    "IsNaN": torch.isnan,
    "Less": torch.lt,
    "LessOrEqual": torch.le,
    "Log": torch.log,
    "Max": lambda *xs: functools.reduce(torch.maximum, xs),
    "Mean": lambda *xs: functools.reduce(torch.add, xs) / len(xs),
    "Min": lambda *xs: functools.reduce(torch.minimum, xs),
    "Mish": F.mish,
    "Mul": torch.mul,
    "Neg": torch.neg,
    "Not": torch.logical_not,
    "Or": torch.logical_or,
    "PRelu": _prelu,
    "Pow": torch.pow,
    "Reciprocal": torch.reciprocal,
    "Relu": torch.relu,
    "Round": torch.round,
    "Sigmoid": torch.sigmoid,
    "Sign": torch.sign,
    "Sin": torch.sin,
    "Sinh": torch.sinh,
    "Softplus": F.softplus,
    "Softsign": F.softsign,
    "Sqrt": torch.sqrt,
    "Sub": torch.sub,
    "Sum": lambda *xs: functools.reduce(torch.add, xs),
    "Tan": torch.tan,
    "Tanh": torch.tanh,
    "Where": torch.where,
    "Xor": torch.logical_xor,
}

WITH_ATTRIBUTES: dict[str, Op] = {
    "BitShift": lambda attrs, x, y: x << y if attrs["direction"] == "LEFT" else x >> y,
    "Cast": _cast,
    "Celu": lambda attrs, x: F.celu(x, attrs.get("alpha", 1.0)),
    "Clip": _clip,
    "DequantizeLinear": _dequantize,
    "Elu": lambda attrs, x: F.elu(x, attrs.get("alpha", 1.0)),
    "Gelu": _gelu,
    "HardSigmoid": _hard_sigmoid,
    "Hardmax": _hardmax,
    "IsInf": _is_infinite,
    "LeakyRelu": lambda attrs, x: F.leaky_relu(x, attrs.get("alpha", 0.01)),
    "LogSoftmax": _softmax(F.log_softmax),
    "Mod": lambda attrs, x, y: (torch.fmod if attrs.get("fmod") else torch.remainder)(x, y),
    "ReduceL1": _reduce(_norm(1), torch.abs),
    "ReduceL2": _reduce(_norm(2), torch.abs),
    "ReduceLogSum": _reduce(_log_sum, torch.log),
    "ReduceLogSumExp": _reduce(torch.logsumexp),
    "ReduceMax": _reduce(torch.amax),
    "ReduceMean": _reduce(torch.mean),
    "ReduceMin": _reduce(torch.amin),
    "ReduceProd": _reduce(_product),
    "ReduceSum": _reduce(torch.sum),
    "ReduceSumSquare": _reduce(_sum_square, torch.square),
    "Selu": _selu,
    "Shrink": _shrink,
    "Softmax": _softmax(F.softmax),
    "Swish": _swish,
    "ThresholdedRelu": _thresholded_relu,
}

BEFORE_OPSET_13: dict[str, Op] = {
    "Hardmax": _flattened(lambda x, dim: _hardmax({"axis": dim}, x)),
    "LogSoftmax": _flattened(F.log_softmax),
    "Softmax": _flattened(F.softmax),
}
