"""Trains an ONNX model with PyTorch: an interpreter of the graph, autograd and `torch.optim.SGD`.

It is written from the ONNX standard and shares no code with odtc. Two things are as odtc has them:
a Softmax or LogSoftmax that closes the model is left out, so that the model is trained on its
logits; and Dropout is the identity, so that two trainers can be compared number by number.
"""

import functools
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import onnx
import torch
import torch.nn.functional as F  # noqa: N812
from onnx import helper, numpy_helper
from torch import Tensor

Attributes = dict[str, Any]
Op = Callable[..., Tensor]

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


def _clip(attrs: Attributes, x: Tensor, low: Any = None, high: Any = None) -> Tensor:
    low, high = attrs.get("min", low), attrs.get("max", high)
    return x if low is None and high is None else torch.clamp(x, low, high)


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


def _reduce(function: Callable[..., Tensor]) -> Op:
    def apply(attrs: Attributes, x: Tensor, axes: Tensor | None = None) -> Tensor:
        listed = _axes(attrs, axes)
        if not listed and attrs.get("noop_with_empty_axes"):
            return x
        return function(x, listed or list(range(x.ndim)), keepdim=bool(attrs.get("keepdims", 1)))

    return apply


def _flattened_softmax(function: Callable[..., Tensor]) -> Op:
    """Before opset 13, softmax is over all dimensions from `axis` on."""

    def apply(attrs: Attributes, x: Tensor) -> Tensor:
        rows = math.prod(x.shape[: attrs.get("axis", 1) % x.ndim])
        return function(x.reshape(rows, -1), dim=1).reshape(x.shape)

    return apply


# --- operator type to function of (attributes, inputs) ------------------------------------------

_PLAIN: dict[str, Op] = {
    "Abs": torch.abs,
    "Add": torch.add,
    "Div": torch.div,
    "Dropout": lambda x, *_: x,
    "Exp": torch.exp,
    "GlobalAveragePool": lambda x: x.mean(tuple(range(2, x.ndim)), keepdim=True),
    "Identity": lambda x: x,
    "Log": torch.log,
    "MatMul": torch.matmul,
    "Mul": torch.mul,
    "Neg": torch.neg,
    "Pow": torch.pow,
    "Relu": torch.relu,
    "Sigmoid": torch.sigmoid,
    "Sqrt": torch.sqrt,
    "Sub": torch.sub,
    "Sum": lambda *xs: functools.reduce(torch.add, xs),
    "Tanh": torch.tanh,
}

_WITH_ATTRIBUTES: dict[str, Op] = {
    "AveragePool": _average_pool,
    "Clip": _clip,
    "Concat": lambda attrs, *xs: torch.cat(xs, attrs["axis"]),
    "Conv": _conv,
    "Flatten": lambda attrs, x: x.reshape(math.prod(x.shape[: attrs.get("axis", 1)]), -1),
    "Gemm": _gemm,
    "LRN": _lrn,
    "LeakyRelu": lambda attrs, x: F.leaky_relu(x, attrs.get("alpha", 0.01)),
    "LogSoftmax": lambda attrs, x: F.log_softmax(x, attrs.get("axis", -1)),
    "MaxPool": _max_pool,
    "ReduceMean": _reduce(torch.mean),
    "ReduceSum": _reduce(torch.sum),
    "Softmax": lambda attrs, x: F.softmax(x, attrs.get("axis", -1)),
    "Squeeze": _squeeze,
    "Transpose": lambda attrs, x: x.permute(attrs.get("perm", tuple(range(x.ndim))[::-1])),
    "Unsqueeze": _unsqueeze,
}

_BEFORE_OPSET_13: dict[str, Op] = {
    "LogSoftmax": _flattened_softmax(F.log_softmax),
    "Softmax": _flattened_softmax(F.softmax),
}


def _without_attributes(function: Op) -> Op:
    return lambda _, *inputs: function(*inputs)


def operators(model: onnx.ModelProto) -> dict[str, Op]:
    """The operators as the model's opset defines them."""
    plain = {op_type: _without_attributes(function) for op_type, function in _PLAIN.items()}
    opset = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    return plain | _WITH_ATTRIBUTES | (_BEFORE_OPSET_13 if opset < 13 else {})


# --- the trainer --------------------------------------------------------------------------------


def attributes(node: onnx.NodeProto) -> Attributes:
    values = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    return {key: v.decode() if isinstance(v, bytes) else v for key, v in values.items()}


def _constant(node: onnx.NodeProto) -> np.ndarray:
    """The value of a Constant node: a tensor, a number, or a list of numbers."""
    ((kind, value),) = attributes(node).items()
    if kind == "value":
        return numpy_helper.to_array(value)
    return np.asarray(value, np.float32 if "float" in kind else np.int64)


def _trained_nodes(graph: onnx.GraphProto) -> tuple[list[onnx.NodeProto], str]:
    """The nodes up to the logits, and the name of the logits."""
    nodes, output = list(graph.node), graph.output[0].name
    last = next(node for node in nodes if output in node.output)
    if last.op_type in ("Softmax", "LogSoftmax"):
        nodes.remove(last)
        output = last.input[0]
    return nodes, output


def _depend_on(name: str, nodes: list[onnx.NodeProto]) -> set[str]:
    """All values that are computed from this one, itself among them."""
    found = {name}
    for node in nodes:
        if found.intersection(node.input):
            found.update(node.output)
    return found


class TorchTrainer:
    """Trains all float weights of a model; the running statistics of its BatchNorms move along.

    A float initializer of rank 0 is a constant of the graph, not a weight. The batch of a step is
    that of the arrays given, also where the model was exported with a fixed batch.

    Args:
        model: an ONNX model of one input; its first output is trained.
        lr: learning rate.
        momentum: of SGD, without dampening.
        weight_decay: L2 penalty on every weight.
        dtype: of all arithmetic; torch.float64 makes a reference of high precision.
        threads: PyTorch's, set for the whole process.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        *,
        lr: float,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        dtype: torch.dtype = torch.float32,
        threads: int | None = None,
    ):
        if threads is not None:
            torch.set_num_threads(threads)
        self._dtype = dtype
        self._training = False
        graph = model.graph
        nodes, self._output = _trained_nodes(graph)
        initializers = {tensor.name for tensor in graph.initializer}
        (feed,) = (value for value in graph.input if value.name not in initializers)
        self._input = feed.name
        self._exported_batch = feed.type.tensor_type.shape.dim[0].dim_value
        self._read_values(graph, nodes)
        self._steps = self._bind(model, nodes)
        self._optimizer = torch.optim.SGD(
            list(self._weights.values()), lr, momentum=momentum, weight_decay=weight_decay
        )

    def step(self, x: np.ndarray, y: np.ndarray) -> float:
        """One step on inputs x and integer labels y [batch]; returns the loss before the update."""
        self._training = True
        self._optimizer.zero_grad()
        loss = F.cross_entropy(self._logits(x), torch.from_numpy(y).long())
        loss.backward()
        self._optimizer.step()
        return loss.item()

    @torch.no_grad()
    def evaluate(self, x: np.ndarray) -> np.ndarray:
        """Logits [batch, classes] in inference mode: BatchNorms use their running statistics."""
        self._training = False
        return self._logits(x).numpy()

    def parameters(self) -> dict[str, np.ndarray]:
        """Copies of the weights and running statistics, by initializer name."""
        tensors = self._weights | self._statistics
        return {name: tensor.detach().numpy().copy() for name, tensor in tensors.items()}

    def _read_values(self, graph: onnx.GraphProto, nodes: list[onnx.NodeProto]) -> None:
        """Sorts what the nodes read into weights, running statistics and constants."""
        read = {name for node in nodes for name in node.input}
        norms = [node for node in nodes if node.op_type == "BatchNormalization"]
        moving = {name for node in norms for name in node.input[3:5]}
        values = {t.name: self._tensor(numpy_helper.to_array(t)) for t in graph.initializer}
        floats = {
            name: value
            for name, value in values.items()
            if name in read and value.ndim and value.is_floating_point()
        }
        self._statistics = {name: value for name, value in floats.items() if name in moving}
        self._weights = {
            name: value.requires_grad_() for name, value in floats.items() if name not in moving
        }
        constants = {
            node.output[0]: self._tensor(_constant(node))
            for node in nodes
            if node.op_type == "Constant"
        }
        self._values = values | constants

    def _tensor(self, value: np.ndarray) -> Tensor:
        """An own copy, floats in the dtype of this trainer."""
        tensor = torch.tensor(value)
        return tensor.to(self._dtype) if tensor.is_floating_point() else tensor

    def _bind(
        self, model: onnx.ModelProto, nodes: list[onnx.NodeProto]
    ) -> list[tuple[Op, list[str], str]]:
        """One (function, inputs, output) for each node."""
        table = operators(model)
        table |= {"BatchNormalization": self._batch_norm, "Reshape": self._reshape}
        batched = _depend_on(self._input, nodes)
        steps = []
        for node in nodes:
            if node.op_type == "Constant":
                continue
            attrs = attributes(node) | {"batched": node.input[0] in batched}
            function = functools.partial(table[node.op_type], attrs)
            steps.append((function, list(node.input), node.output[0]))
        return steps

    def _logits(self, x: np.ndarray) -> Tensor:
        values: dict[str, Any] = self._values | {"": None, self._input: self._tensor(x)}
        self._batch = len(x)
        for function, inputs, output in self._steps:
            values[output] = function(*(values[name] for name in inputs))
        logits = values[self._output]
        assert math.prod(logits.shape[2:]) == 1, f"no [batch, classes]: {tuple(logits.shape)}"
        return logits.flatten(1)

    def _reshape(self, attrs: Attributes, x: Tensor, target: Tensor) -> Tensor:
        """Reshape; a target that starts with the exported batch follows the batch of this run."""
        sizes = target.tolist()
        if not attrs.get("allowzero"):
            sizes = [x.shape[at] if size == 0 else size for at, size in enumerate(sizes)]
        if attrs["batched"] and x.shape[0] == self._batch and sizes[0] == self._exported_batch:
            sizes[0] = self._batch
        return x.reshape(sizes)

    def _batch_norm(
        self, attrs: Attributes, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor
    ) -> Tensor:
        """Normalises by the batch in training, and moves `mean` and `var` as ONNX does.

        ONNX keeps `momentum` of the old statistic, and takes the variance of the batch over n;
        PyTorch's own would keep 1 - momentum, and divide by n - 1.
        """
        eps, momentum = attrs.get("epsilon", 1e-5), attrs.get("momentum", 0.9)
        if not self._training:
            return F.batch_norm(x, mean, var, scale, bias, eps=eps)
        with torch.no_grad():
            axes = [0, *range(2, x.ndim)]
            mean.lerp_(x.mean(axes), 1 - momentum)
            var.lerp_(x.var(axes, unbiased=False), 1 - momentum)
        return F.batch_norm(x, None, None, scale, bias, training=True, eps=eps)
