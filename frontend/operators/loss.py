"""Losses that are nodes of the model, in other operators.

The label becomes a mask over the classes, so that no score is read by index: a label that is
ignored, or outside of the classes, matches none of them.
"""

import numpy as np

from odtc.core.specs import Classes
from odtc.frontend.operators.operator import Emit, Node, Operator
from odtc.frontend.operators.reduction import reduce

# Below any sum of weights; a batch whose labels are all ignored has the loss 0.
_TINY = 1e-30


def _class_axis(node: Node) -> str:
    """The scores have a class axis; before opset 13, rank 2."""
    if node.rank() < 2:
        return f"the scores need a class axis; they have rank {node.rank()}"
    if node.opset < 13 and node.rank() > 2:
        return f"before opset 13 only scores of rank 2 are supported; these have {node.rank()}"
    return ""


def _cross_entropy(node: Node, emit: Emit) -> list[str]:
    logs = emit("LogSoftmax", node.inputs[0], axis=1)
    return [_likelihood(node, emit, logs), logs]


def _nll(node: Node, emit: Emit) -> str:
    return _likelihood(node, emit, node.inputs[0])


def _likelihood(node: Node, emit: Emit, logs: str) -> str:
    """Negative log-likelihood of the labels, as ONNX defines its mean with and without weights."""
    weights, ignored = _label_weights(node, emit)
    shares = reduce(node, emit, "ReduceSum", emit("Mul", weights, logs), [1], keepdims=0)
    losses = emit("Neg", shares)
    reduction = node.attrs.get("reduction", "mean")
    axes = list(range(node.rank() - 1))
    if reduction == "none":
        return losses
    total = reduce(node, emit, "ReduceSum", losses, axes, keepdims=0)
    if reduction == "sum":
        return total
    if ignored is None and not node.has(2):
        return emit("Div", total, float(np.prod(node.shape(1))))
    if node.has(2):
        count = reduce(node, emit, "ReduceSum", weights, [*axes, node.rank() - 1], keepdims=0)
    else:
        counted = emit("Cast", _is_counted(node, emit, ignored), to=1)
        count = reduce(node, emit, "ReduceSum", counted, axes, keepdims=0)
    return emit("Div", total, emit("Max", count, _TINY))


def _is_counted(node: Node, emit: Emit, ignored: int | None) -> str:
    """Whether a label is a class that is not ignored; of labels alone, which are few."""
    label, dtype = node.inputs[1], node.dtype(1)
    outside = emit("Less", label, np.array(0, dtype))
    above = emit("Greater", label, np.array(node.shape()[1] - 1, dtype))
    is_ignored = emit("Equal", label, np.array(ignored, dtype))
    return emit("Not", emit("Or", emit("Or", outside, above), is_ignored))


def _label_weights(node: Node, emit: Emit) -> tuple[str, int | None]:
    """For each class its weight where it is the label's and else 0; and the ignored label."""
    shape, label = node.shape(), node.inputs[1]
    ignored = node.attrs.get("ignore_index")
    along = [1, shape[1], *(1 for _ in shape[2:])]
    if label in {spec.name for spec in (*node.graph.inputs, *node.graph.labels)}:
        node.graph.classes[label] = Classes(shape[1], 1, ignored)
    numbers = np.arange(shape[1], dtype=node.dtype(1))
    column = emit("Reshape", label, np.array([shape[0], 1, *shape[2:]], np.int64))
    mask = emit("Cast", emit("Equal", column, numbers.reshape(along)), to=1)
    factors: str | np.ndarray = (numbers != ignored).astype(np.float32).reshape(along)
    if node.has(2):
        weight = emit("Reshape", node.inputs[2], np.array(along, np.int64))
        factors = emit("Mul", weight, factors)
    return emit("Mul", mask, factors), ignored


OPERATORS: dict[str, Operator] = {
    "NegativeLogLikelihoodLoss": Operator(condition=_class_axis, expand=_nll),
    "SoftmaxCrossEntropyLoss": Operator(condition=_class_axis, expand=_cross_entropy),
}
