"""Rewrites of the graph's structure: which outputs are trained, and from where."""

import math
from collections.abc import Container

import onnx

from odtc.core.errors import ModelError
from odtc.frontend.graph import Graph, attributes, describe_node
from odtc.frontend.losses.classification import CrossEntropy
from odtc.frontend.losses.loss import Loss


def without_closing(graph: Graph, output: str, loss: Loss) -> str:
    """Drops an operator that closes the output and that the loss has inside.

    Returns:
        The tensor to train on: the operator's input, or the output itself.

    Raises:
        ModelError: the operator goes along another axis than the loss.
    """
    last = next((node for node in graph.nodes if output in node.output), None)
    if last is None or last.op_type not in loss.closing:
        return output
    _check_axis(graph, last, loss)
    graph.notes.append(
        f"{describe_node(last)} closes the model: it is trained on, and evaluates to, the logits "
        f"{last.input[0]!r} in front of it"
    )
    return last.input[0]


def _check_axis(graph: Graph, node: onnx.NodeProto, loss: Loss) -> None:
    shape = graph.shapes.get(node.input[0], ())
    if not isinstance(loss, CrossEntropy) or not -len(shape) <= loss.axis < len(shape):
        return
    wanted, axes = loss.axis % len(shape), _axes(graph, node)
    if any(shape[axis] > 1 for axis in axes if axis != wanted) or wanted not in axes:
        raise ModelError(
            f"{describe_node(node)} closes the model along axis {', '.join(map(str, axes))}; "
            f"the loss is along axis {wanted}",
            where=f"output {node.output[0]}",
            hint=f"give the loss that axis: {loss.name}{{axis={axes[0]}}}"
            if len(axes) == 1
            else "export the model for opset 13 or newer",
        )


def _axes(graph: Graph, node: onnx.NodeProto) -> list[int]:
    """Dimensions that a Softmax sums over: before opset 13 all from its axis on."""
    rank = len(graph.shapes[node.input[0]])
    axis = attributes(node).get("axis", 1 if graph.opset < 13 else -1)
    first = int(axis) % rank  # pyright: ignore[reportArgumentType]
    return list(range(first, rank)) if graph.opset < 13 else [first]


def _values_of_a_channel(graph: Graph, node: onnx.NodeProto) -> int:
    """How many values a statistic of a batch normalisation is of; 0 where that is not known."""
    shape = graph.shapes.get(node.input[0], (0, 0))
    return math.prod(shape) // shape[1] if len(shape) > 1 and shape[1] else 0


def note_batch_norms(graph: Graph, still: Container[str] = ()) -> None:
    """Says that batch normalisations of an inference model are trained as in a training one.

    Args:
        graph: specialised, not yet normalised.
        still: running statistics that stay as they are.
    """
    nodes = [
        node
        for node in graph.nodes
        if node.op_type == "BatchNormalization" and node.input[3] not in still
    ]
    alone = [node for node in nodes if _values_of_a_channel(graph, node) == 1]
    if alone:
        graph.notes.append(
            f"{describe_node(alone[0])}: its statistics are of one value, so that all it gives is "
            "its shift, and PyTorch refuses it: give a larger --batch, or --freeze-batch-norm"
        )
    inferring = [node for node in nodes if not attributes(node).get("training_mode")]
    if inferring:
        graph.notes.append(
            f"batch normalisations in inference mode: {len(inferring)}; trained by the statistics "
            "of the batch, and running statistics follow"
        )
