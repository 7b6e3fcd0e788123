"""Nodes in training mode, as ONNX defines their values, in other operators.

A training step has its own batch normalisation and dropout: an inference model says nothing of
them. This is for models that are run forward as they are.
"""

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper

from odtc.core.errors import UnsupportedError
from odtc.frontend.graph import Graph, describe_node
from odtc.frontend.operators.operator import Emit, Node
from odtc.frontend.operators.reduction import reduce


def expand_training_mode(graph: Graph) -> None:
    """Writes out batch normalisations that are in training mode, and all dropouts.

    Raises:
        UnsupportedError: a dropout's mode or ratio is not constant, or it has no seed.
    """
    nodes: list[onnx.NodeProto] = []
    for proto in graph.nodes:
        node = Node(graph, proto)
        emit = Emit(node)
        results: Sequence[str] = ()
        if proto.op_type == "BatchNormalization" and node.attrs.get("training_mode"):
            results = _batch_norm(node, emit)
        elif proto.op_type == "Dropout":
            results = _dropout(node, emit) if _trains(node) else _no_dropout(node)
        same = [
            helper.make_node("Identity", [result], [name])
            for result, name in zip(results, proto.output, strict=False)
            if name
        ]
        nodes += [*emit.nodes, *same] if results else [proto]
    changed = len(nodes) != len(graph.nodes)
    graph.nodes = nodes
    if changed:
        graph.infer_shapes()


def _batch_norm(node: Node, emit: Emit) -> list[str]:
    """The batch's own mean and biased variance; the running ones move towards them."""
    data, scale, bias, *running = node.inputs
    axes = [axis for axis in range(node.rank()) if axis != 1]
    along = np.array([-1, *(1 for _ in axes[1:])], np.int64)
    mean = reduce(node, emit, "ReduceMean", data, axes)
    centred = emit("Sub", data, mean)
    variance = reduce(node, emit, "ReduceMean", emit("Mul", centred, centred), axes)
    root = emit("Sqrt", emit("Add", variance, float(node.attrs.get("epsilon", 1e-5))))
    scaled = emit("Mul", emit("Div", centred, root), emit("Reshape", scale, along))
    result = emit("Add", scaled, emit("Reshape", bias, along))
    momentum = float(node.attrs.get("momentum", 0.9))
    moved = [
        emit(
            "Add",
            emit("Mul", old, momentum),
            emit("Mul", emit("Reshape", new, np.array([-1], np.int64)), 1 - momentum),
        )
        for old, new in zip(running, (mean, variance), strict=True)
    ]
    return [result, *moved]


def _trains(node: Node) -> bool:
    mode = node.constant(2)
    if node.has(2) and mode is None:
        raise UnsupportedError(
            "the training mode must be constant",
            where=f"node {describe_node(node.proto)}",
            hint="make input training_mode an initializer or a Constant node",
        )
    return mode is not None and bool(mode)


def _no_dropout(node: Node) -> list[str]:
    return [node.inputs[0], node.graph.add_constant("mask", np.ones(node.shape(), bool))]


def _dropout(node: Node, emit: Emit) -> list[str]:
    """The mask is the one that ONNX's reference implementation draws from the seed."""
    ratio = node.number("ratio", 1)
    ratio = 0.5 if ratio is None and not node.has(1) else ratio
    if ratio is None or (ratio and "seed" not in node.attrs):
        raise UnsupportedError(
            "the ratio must be constant, and a seed must be given",
            where=f"node {describe_node(node.proto)}",
            hint="make input ratio an initializer, and give the node an attribute seed",
        )
    shape = node.shape()
    drawn = np.random.RandomState(node.attrs.get("seed", 0)).uniform(0, 1, shape)
    kept = drawn >= ratio
    factor = (kept / (1 - ratio)).astype(node.dtype())
    return [emit("Mul", node.inputs[0], factor), node.graph.add_constant("mask", kept)]
