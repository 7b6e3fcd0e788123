"""Trains an ONNX model with PyTorch: an interpreter of the graph, autograd and `torch.optim.SGD`.

It shares no code with odtc. Two things are as odtc has them: a Softmax or LogSoftmax that closes
the model is left out, so that the model is trained on its logits; and Dropout is the identity, so
that two trainers can be compared number by number.
"""

import functools
import math
from typing import Any

import numpy as np
import onnx
import torch
import torch.nn.functional as F  # noqa: N812
from onnx import numpy_helper
from torch import Tensor

from benchmarks.reference.operators import Attributes, Op, attributes, operators


def _constant(node: onnx.NodeProto) -> np.ndarray:
    """The value of a Constant node: a tensor, a number, or a list of numbers."""
    ((kind, value),) = attributes(node).items()
    if kind == "value":
        return numpy_helper.to_array(value)
    return np.asarray(value, np.float32 if "float" in kind else np.int64)


# Their floats of rank 1 are scales and corners, not weights.
_RESIZING = ("Resize", "Upsample")


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
        settings = {name for node in nodes if node.op_type in _RESIZING for name in node.input[1:]}
        values = {t.name: self._tensor(numpy_helper.to_array(t)) for t in graph.initializer}
        floats = {
            name: value
            for name, value in values.items()
            if name in read - settings and value.ndim and value.is_floating_point()
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
    ) -> list[tuple[Op, list[str], list[str]]]:
        """One (function, inputs, outputs) for each node."""
        table = operators(model)
        table |= {"BatchNormalization": self._batch_norm, "Reshape": self._reshape}
        batched = _depend_on(self._input, nodes)
        steps = []
        for node in nodes:
            if node.op_type == "Constant":
                continue
            attrs = attributes(node) | {
                "batched": bool(batched.intersection(node.input[:1])),
                "outputs": len(node.output),
            }
            function = functools.partial(table[node.op_type], attrs)
            steps.append((function, list(node.input), list(node.output)))
        return steps

    def _logits(self, x: np.ndarray) -> Tensor:
        values: dict[str, Any] = self._values | {"": None, self._input: self._tensor(x)}
        self._batch = len(x)
        for function, inputs, outputs in self._steps:
            result = function(*(values[name] for name in inputs))
            results = result if isinstance(result, tuple) else (result,)
            values |= dict(zip(outputs, results, strict=False))
        logits = values[self._output]
        assert math.prod(logits.shape[2:]) == 1, f"no [batch, classes]: {tuple(logits.shape)}"
        return logits.flatten(1)

    def _reshape(self, attrs: Attributes, x: Tensor, target: Tensor) -> Tensor:
        """Reshape; a target that starts with the exported batch follows the batch of this run."""
        sizes = target.tolist()
        if not attrs.get("allowzero"):
            sizes = [x.shape[at] if size == 0 else size for at, size in enumerate(sizes)]
        whole = attrs["batched"] and x.shape[:1] == (self._batch,)
        if whole and sizes[0] == self._exported_batch:
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
