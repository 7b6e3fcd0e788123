"""A graph of the model zoo as a PyTorch module, as its authors would write it by hand.

Convolutions, pools and normalisations become PyTorch's own, in its fused forms, so that PyTorch is
as fast as it is with a module of torchvision's; the walk from node to node takes a microsecond
each. Only what the nine graphs have is here: `benchmarks/reference` is the interpreter that knows
all operators, and is slow where that makes it easier to check.
"""

import functools
import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import onnx
import torch
import torch.nn.functional as F  # noqa: N812
from onnx import numpy_helper
from torch import Tensor, nn

from benchmarks.reference.operators import attributes

# A node of the graph: the function, and the names of what it takes and of what it makes.
_Step = tuple[Callable[..., Tensor], list[str], str]
_Attributes = dict[str, Any]


class ZooModule(nn.Module):
    """Computes the logits [batch, classes] of a model, in training mode; dropout is left out.

    Its parameters and buffers have the names of the initializers.

    Args:
        model: one of `zoo_model`, exported for one sample.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        super().__init__()
        graph = model.graph
        nodes = [node for node in graph.node if node.op_type != "Softmax"]
        norms = [node for node in nodes if node.op_type == "BatchNormalization"]
        moving = {name for node in norms for name in node.input[3:]}
        read = {name for node in nodes for name in node.input}
        sizes: dict[str, Sequence[int]] = {}
        for tensor in graph.initializer:
            if tensor.name not in read:
                continue
            value = torch.from_numpy(numpy_helper.to_array(tensor).copy())
            if tensor.name in moving:
                self.register_buffer(tensor.name, value)
            elif value.is_floating_point():
                self.register_parameter(tensor.name, nn.Parameter(value))
            else:
                sizes[tensor.name] = value.tolist()
        known = {tensor.name for tensor in graph.initializer}
        (self._fed,) = (value.name for value in graph.input if value.name not in known)
        self._steps = [_step(node, sizes) for node in nodes]

    def forward(self, x: Tensor) -> Tensor:
        """Logits of images [batch, channels, height, width]."""
        values = {self._fed: x, **dict(self.named_parameters()), **dict(self.named_buffers())}
        name = self._fed
        for function, inputs, name in self._steps:
            values[name] = function(*(values[each] for each in inputs))
        return values[name].flatten(1)


def _step(node: onnx.NodeProto, sizes: dict[str, Sequence[int]]) -> _Step:
    attrs = attributes(node)
    inputs = [name for name in node.input if name not in sizes]
    if node.op_type == "Reshape":
        # The graphs are exported for one sample.
        attrs["sizes"] = [-1, *sizes[node.input[1]][1:]]
    return partial(_OPERATORS[node.op_type], attrs), inputs, node.output[0]


# --- operators, of attributes and inputs ----------------------------------------------------------


def _conv(attrs: _Attributes, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    strides, dilations = attrs.get("strides", 1), attrs.get("dilations", 1)
    padding = _even_pads(attrs)
    return F.conv2d(x, weight, bias, strides, padding, dilations, attrs.get("group", 1))


def _even_pads(attrs: _Attributes) -> list[int]:
    pads = attrs.get("pads", [0, 0, 0, 0])
    assert pads[:2] == pads[2:], "PyTorch pads both sides alike"
    return pads[:2]


def _batch_norm(
    attrs: _Attributes, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor
) -> Tensor:
    momentum = 1 - attrs.get("momentum", 0.9)
    return F.batch_norm(x, mean, var, scale, bias, True, momentum, attrs.get("epsilon", 1e-5))


def _max_pool(attrs: _Attributes, x: Tensor) -> Tensor:
    """A last window that runs past the edge is one of PyTorch's `ceil_mode`."""
    kernel, strides = attrs["kernel_shape"], attrs["strides"]
    begin, end = attrs["pads"][:2], attrs["pads"][2:]
    result = F.max_pool2d(x, kernel, strides, begin, ceil_mode=begin != end)
    sides = zip(x.shape[2:], begin, end, kernel, strides, strict=True)
    expected = [(size + b + e - k) // s + 1 for size, b, e, k, s in sides]
    assert list(result.shape[2:]) == expected, "other windows than ONNX's"
    return result


def _average_pool(attrs: _Attributes, x: Tensor) -> Tensor:
    """A window as large as the image, or larger where padding counts for nothing, is its mean."""
    kernel = attrs["kernel_shape"]
    if all(k >= size for k, size in zip(kernel, x.shape[2:], strict=True)):
        return F.adaptive_avg_pool2d(x, 1)
    return F.avg_pool2d(x, kernel, attrs["strides"], _even_pads(attrs), count_include_pad=False)


def _local_response(attrs: _Attributes, x: Tensor) -> Tensor:
    return F.local_response_norm(x, attrs["size"], attrs["alpha"], attrs["beta"], attrs["bias"])


def _gemm(attrs: _Attributes, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    assert attrs == {"transB": 1}
    return F.linear(x, weight, bias)


_OPERATORS: dict[str, Callable[..., Tensor]] = {
    "Add": lambda _, x, y: x + y,
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_norm,
    "Concat": lambda attrs, *x: torch.cat(x, attrs["axis"]),
    "Conv": _conv,
    "Dropout": lambda _, x: x,
    "Gemm": _gemm,
    "GlobalAveragePool": lambda _, x: F.adaptive_avg_pool2d(x, 1),
    "LRN": _local_response,
    "MaxPool": _max_pool,
    "Mul": lambda _, x, y: x * y,
    "Relu": lambda _, x: F.relu(x),
    "Reshape": lambda attrs, x: x.reshape(attrs["sizes"]),
    "Sum": lambda _, *x: functools.reduce(operator.add, x),
    "Transpose": lambda attrs, x: x.permute(attrs["perm"]),
    "Unsqueeze": lambda attrs, x: x[(..., *[None] * len(attrs["axes"]))],
}
