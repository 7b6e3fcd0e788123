"""Which ONNX operators odtc trains, by node, before anything is compiled.

The levels and their conditions are in the tables of `frontend/operators`.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import onnx

from odtc.core.errors import UnsupportedError
from odtc.frontend.graph import Graph, describe_node
from odtc.frontend.operators.operator import Level, Node
from odtc.frontend.operators.table import OPERATORS

MAX_LISTED = 8


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


def check_graph(graph: Graph, trained: Iterable[str] | None = None) -> list[NodeReport]:
    """Reports on every node, in order.

    Args:
        graph: specialised, not yet normalised.
        trained: the parameters that are to be trained; all by default.
    """
    needed = _needed_nodes(graph)
    learned = set(graph.parameters if trained is None else trained)
    reports = []
    for node in graph.nodes:
        level, reason = _level(graph, node)
        differentiated = bool(learned.intersection(node.input))
        if differentiated and _gives_floats(graph, node):
            learned.update(node.output)
        allowed = (Level.TRAINABLE,) if differentiated else (Level.TRAINABLE, Level.FORWARD_ONLY)
        blocks = id(node) in needed and level not in allowed
        reports.append(NodeReport(describe_node(node), node.op_type, level, reason, blocks))
    return reports


def require_trainable(graph: Graph, trained: Iterable[str] | None = None) -> None:
    """Checks that the graph can be trained.

    Args:
        graph: specialised, not yet normalised.
        trained: the parameters that are to be trained; all by default.

    Raises:
        UnsupportedError: it cannot; the message names the nodes and the reasons.
    """
    blocking = [report for report in check_graph(graph, trained) if report.blocks]
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
    operator = OPERATORS.get(node.op_type)
    if operator is None:
        return Level.UNSUPPORTED, f"operator {node.op_type} is not supported in this version"
    reason = operator.condition(Node(graph, node))
    if reason:
        return Level.UNSUPPORTED, reason
    if operator.level is Level.FORWARD_ONLY and _gives_floats(graph, node):
        return Level.FORWARD_ONLY, "no gradient in this version"
    return Level.TRAINABLE, ""


def _gives_floats(graph: Graph, node: onnx.NodeProto) -> bool:
    """Whether a gradient could flow through the node: integers and booleans carry none."""
    return any(
        np.issubdtype(graph.dtypes.get(name, "float32"), np.floating) for name in node.output
    )


def _needed_nodes(graph: Graph) -> set[int]:
    """Identities of the nodes that the outputs depend on."""
    needed, nodes = set(graph.outputs), set()
    for node in reversed(graph.nodes):
        if needed.intersection(node.output):
            needed.update(node.input)
            nodes.add(id(node))
    return nodes
