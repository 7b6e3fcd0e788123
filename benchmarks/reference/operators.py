"""ONNX operators as PyTorch functions: one table, written from the ONNX standard.

A function takes the node's attributes and its inputs, and returns the first output. Dropout is the
identity. Left out are operators whose result depends on more than that (see the trainer).
"""

import functools
import math
from collections.abc import Iterable

import onnx
import torch
import torch.nn.functional as F  # noqa: N812
from onnx import helper
from torch import Tensor

from benchmarks.reference import elementwise
from benchmarks.reference.elementwise import Attributes, Op
from benchmarks.reference.indexing import INDEXING


def attributes(node: onnx.NodeProto) -> Attributes:
    """The attributes of a node, by name."""
    values = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    return {key: v.decode() if isinstance(v, bytes) else v for key, v in values.items()}


# --- windows: the geometry that convolution and pooling share -----------------------------------


def _window(attrs: Attributes, x: Tensor, kernel: Iterable[int]) -> list[tuple[int, int, int]]:
    """For each spatial dimension: padding before, padding after, and how far windows run past it.

    The third number is only non-zero with ceil_mode; it is negative where ONNX leaves out a last
    window that would start in the padding.
    """
    padding = []
    for axis, (size, taps) in enumerate(zip(x.shape[2:], kernel, strict=True)):
        stride = attrs.get("strides", [1, 1])[axis]
        span = attrs.get("dilations", [1, 1])[axis] * (taps - 1) + 1
        before, after = _pads(attrs, axis, size, stride, span)
        past = 0
        if attrs.get("ceil_mode", 0):
            count = -(-(size + before + after - span) // stride) + 1
            count -= (count - 1) * stride >= size + before
            past = (count - 1) * stride + span - (size + before + after)
        padding.append((before, after, past))
    return padding


def _pads(attrs: Attributes, axis: int, size: int, stride: int, span: int) -> tuple[int, int]:
    """Padding before and after one dimension, from `pads` or `auto_pad`."""
    mode = attrs.get("auto_pad", "NOTSET")
    if mode == "NOTSET":
        pads = attrs.get("pads", [0, 0, 0, 0])
        return pads[axis], pads[axis + 2]
    if mode == "VALID":
        return 0, 0
    total = max((math.ceil(size / stride) - 1) * stride + span - size, 0)
    small, large = total // 2, total - total // 2
    return (small, large) if mode == "SAME_UPPER" else (large, small)


def _pad(x: Tensor, padding: list[tuple[int, int]], value: float = 0.0) -> Tensor:
    """Pads the spatial dimensions; F.pad wants the last one first."""
    flat = [amount for pair in reversed(padding) for amount in pair]
    return F.pad(x, flat, value=value) if any(flat) else x


def _conv(attrs: Attributes, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    padding = [(before, after) for before, after, _ in _window(attrs, x, weight.shape[2:])]
    stride, dilation = attrs.get("strides", [1, 1]), attrs.get("dilations", [1, 1])
    group = attrs.get("group", 1)
    return F.conv2d(_pad(x, padding), weight, bias, stride, 0, dilation, group)


def _max_pool(attrs: Attributes, x: Tensor) -> Tensor:
    kernel = attrs["kernel_shape"]
    padding = [(before, after + past) for before, after, past in _window(attrs, x, kernel)]
    stride, dilation = attrs.get("strides", [1, 1]), attrs.get("dilations", [1, 1])
    return F.max_pool2d(_pad(x, padding, -math.inf), kernel, stride, 0, dilation)


def _average_pool(attrs: Attributes, x: Tensor) -> Tensor:
    """The mean over a window counts padding with count_include_pad, and never what is past it."""
    if any(step != 1 for step in attrs.get("dilations", [])):
        raise NotImplementedError("AveragePool with dilations")
    kernel, stride = attrs["kernel_shape"], attrs.get("strides", [1, 1])
    window = _window(attrs, x, kernel)
    pads = [(before, after) for before, after, _ in window]
    past = [(0, extra) for _, _, extra in window]
    counted = _pad(torch.ones_like(x[:1, :1]), pads, float(attrs.get("count_include_pad", 0)))
    means = F.avg_pool2d(_pad(_pad(x, pads), past), kernel, stride)
    return means / F.avg_pool2d(_pad(counted, past), kernel, stride)


# --- the other operators that need more than a line ---------------------------------------------


def _gemm(attrs: Attributes, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    a = a.T if attrs.get("transA") else a
    b = b.T if attrs.get("transB") else b
    product = attrs.get("alpha", 1.0) * (a @ b)
    return product if c is None else product + attrs.get("beta", 1.0) * c


def _lrn(attrs: Attributes, x: Tensor) -> Tensor:
    size = attrs["size"]
    padded = F.pad(x * x, (0, 0, 0, 0, (size - 1) // 2, size // 2))
    window_sum = padded.unfold(1, size, 1).sum(-1)
    base = attrs.get("bias", 1.0) + attrs.get("alpha", 1e-4) / size * window_sum
    return x / base ** attrs.get("beta", 0.75)


def _axes(attrs: Attributes, given: Tensor | None) -> list[int] | None:
    """`axes` is an attribute in older opsets and an input in newer ones."""
    return attrs.get("axes") if given is None else given.tolist()


def _squeeze(attrs: Attributes, x: Tensor, axes: Tensor | None = None) -> Tensor:
    listed = _axes(attrs, axes)
    return x.squeeze() if listed is None else x.squeeze(tuple(listed))


def _unsqueeze(attrs: Attributes, x: Tensor, axes: Tensor | None = None) -> Tensor:
    listed = _axes(attrs, axes) or []
    rank = x.ndim + len(listed)
    return functools.reduce(torch.unsqueeze, sorted(axis % rank for axis in listed), x)


# --- operator type to function of (attributes, inputs) ------------------------------------------

_PLAIN: dict[str, Op] = {
    "Dropout": lambda x, *_: x,
    "GlobalAveragePool": lambda x: x.mean(tuple(range(2, x.ndim)), keepdim=True),
    "Identity": lambda x: x,
    "MatMul": torch.matmul,
}

_WITH_ATTRIBUTES: dict[str, Op] = {
    "AveragePool": _average_pool,
    "Concat": lambda attrs, *xs: torch.cat(xs, attrs["axis"]),
    "Conv": _conv,
    "Flatten": lambda attrs, x: x.reshape(math.prod(x.shape[: attrs.get("axis", 1)]), -1),
    "Gemm": _gemm,
    "LRN": _lrn,
    "MaxPool": _max_pool,
    "Squeeze": _squeeze,
    "Transpose": lambda attrs, x: x.permute(attrs.get("perm", tuple(range(x.ndim))[::-1])),
    "Unsqueeze": _unsqueeze,
}


def _without_attributes(function: Op) -> Op:
    return lambda _, *inputs: function(*inputs)


def operators(model: onnx.ModelProto) -> dict[str, Op]:
    """The operators as the model's opset defines them."""
    plain = {name: _without_attributes(op) for name, op in (elementwise.PLAIN | _PLAIN).items()}
    opset = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    older = elementwise.BEFORE_OPSET_13 if opset < 13 else {}
    return plain | INDEXING | elementwise.WITH_ATTRIBUTES | _WITH_ATTRIBUTES | older
