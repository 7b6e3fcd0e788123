"""Which ONNX operators odtc trains, by node, before anything is compiled.

One table from operator type to its level, and to the condition under which that level holds. An
operator that is in no table is unsupported.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import onnx

from odtc.core.errors import UnsupportedError
from odtc.frontend.graph import Graph, attributes, describe_node

MAX_LISTED = 8


class Level(StrEnum):
    """What odtc can do with a node."""

    TRAINABLE = "trainable"
    FORWARD_ONLY = "forward-only"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True)
class NodeReport:
    """What odtc can do with one node.

    Attributes:
        node: its name, or first output, and operator type.
        op_type: the ONNX operator.
        level: what odtc can do with it.
        reason: why it is not trainable; empty where it is.
        blocks: whether this keeps the model from being trained.
    """

    node: str
    op_type: str
    level: Level
    reason: str = ""
    blocks: bool = False


Condition = Callable[[Graph, onnx.NodeProto, dict[str, Any]], str]


def _two_dimensional(graph: Graph, node: onnx.NodeProto, attrs: dict[str, Any]) -> str:
    rank = len(graph.shapes.get(node.input[0], ()))
    if rank != 4:
        return f"only 2-D (rank 4) is supported; the input has rank {rank}"
    if any(d != 1 for d in attrs.get("dilations", [])):
        return f"dilations {attrs['dilations']} have no gradient yet; only 1 is supported"
    return ""


def _pool(graph: Graph, node: onnx.NodeProto, attrs: dict[str, Any]) -> str:
    if len(node.output) > 1 and node.output[1]:
        return "the Indices output is not supported"
    if attrs.get("storage_order"):
        return "storage_order 1 is not supported"
    return _two_dimensional(graph, node, attrs)


def _constant_exponent(graph: Graph, node: onnx.NodeProto, _: dict[str, Any]) -> str:
    return "" if node.input[1] in graph.constants else "the exponent must be a constant"


def _last_axis(graph: Graph, node: onnx.NodeProto, attrs: dict[str, Any]) -> str:
    rank = len(graph.shapes.get(node.input[0], ()))
    axis = attrs.get("axis", 1 if graph.opset < 13 else -1) % max(rank, 1)
    if graph.opset < 13 and axis != rank - 1:
        return f"before opset 13 only the last axis is supported; the node has axis {axis}"
    return ""


def _static_shape(graph: Graph, node: onnx.NodeProto, _: dict[str, Any]) -> str:
    return "" if node.output[0] in graph.shapes else "the output's shape is not static"


def _first_output(graph: Graph, node: onnx.NodeProto, _: dict[str, Any]) -> str:
    read = [name for name in node.output[1:] if name and graph.consumers(name)]
    return f"only its first output can be used; {read[0]!r} is read too" if read else ""


def _always(_: Graph, __: onnx.NodeProto, ___: dict[str, Any]) -> str:
    return ""


_TRAINABLE: dict[str, Condition] = {
    "Abs": _always,
    "Add": _always,
    "AveragePool": _pool,
    "BatchNormalization": _first_output,
    "Concat": _always,
    "Conv": _two_dimensional,
    "Cos": _always,
    "Div": _always,
    "Dropout": _first_output,
    "Exp": _always,
    "Flatten": _static_shape,
    "Gemm": _always,
    "GlobalAveragePool": _always,
    "Identity": _always,
    "LRN": _two_dimensional,
    "Log": _always,
    "LogSoftmax": _last_axis,
    "MatMul": _always,
    "MaxPool": _pool,
    "Mul": _always,
    "Neg": _always,
    "Pow": _constant_exponent,
    "ReduceMean": _always,
    "ReduceSum": _always,
    "Relu": _always,
    "Reshape": _static_shape,
    "Sigmoid": _always,
    "Sin": _always,
    "Softmax": _last_axis,
    "Sqrt": _always,
    "Squeeze": _static_shape,
    "Sub": _always,
    "Sum": _always,
    "Tanh": _always,
    "Transpose": _always,
    "Unsqueeze": _static_shape,
}

# The importer brings these and their values are right; their gradients come with a later version.
_FORWARD_ONLY = frozenset(
    "Cast Ceil Elu Erf Floor Gelu HardSigmoid LeakyRelu Max Min ReduceMax ReduceMin Round Selu "
    "Sign Slice Softplus".split()
)

OPERATORS: dict[str, Level] = dict.fromkeys(_TRAINABLE, Level.TRAINABLE) | dict.fromkeys(
    _FORWARD_ONLY, Level.FORWARD_ONLY
)


def check_graph(graph: Graph) -> list[NodeReport]:
    """Reports on every node, in order.

    Args:
        graph: specialised, not yet normalised.
    """
    needed = _needed_nodes(graph)
    learned = set(graph.parameters)
    reports = []
    for node in graph.nodes:
        level, reason = _level(graph, node)
        trained = bool(learned.intersection(node.input))
        if trained:
            learned.update(node.output)
        allowed = (Level.TRAINABLE,) if trained else (Level.TRAINABLE, Level.FORWARD_ONLY)
        blocks = id(node) in needed and level not in allowed
        reports.append(NodeReport(describe_node(node), node.op_type, level, reason, blocks))
    return reports


def require_trainable(graph: Graph) -> None:
    """Checks that the graph can be trained.

    Raises:
        UnsupportedError: it cannot; the message names the nodes and the reasons.
    """
    blocking = [report for report in check_graph(graph) if report.blocks]
    if not blocking:
        return
    lines = [f"  {report.node}: {report.level}: {report.reason}" for report in blocking]
    if len(lines) > MAX_LISTED:
        lines = [*lines[:MAX_LISTED], f"  and {len(lines) - MAX_LISTED} more"]
    raise UnsupportedError(
        f"{len(blocking)} of {len(graph.nodes)} nodes cannot be trained:\n" + "\n".join(lines),
        hint="`odtc check MODEL` lists every node",
    )


def _level(graph: Graph, node: onnx.NodeProto) -> tuple[Level, str]:
    condition = _TRAINABLE.get(node.op_type)
    if condition is not None:
        reason = condition(graph, node, attributes(node))
        return (Level.UNSUPPORTED, reason) if reason else (Level.TRAINABLE, "")
    if node.op_type in _FORWARD_ONLY:
        return Level.FORWARD_ONLY, "no gradient in this version"
    return Level.UNSUPPORTED, f"operator {node.op_type} is not supported in this version"


def _needed_nodes(graph: Graph) -> set[int]:
    """Identities of the nodes that the trained output depends on."""
    needed, nodes = {graph.outputs[0]}, set()
    for node in reversed(graph.nodes):
        if needed.intersection(node.output):
            needed.update(node.input)
            nodes.add(id(node))
    return nodes
