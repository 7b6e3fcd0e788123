"""Which ONNX operators odtc trains, by node, before anything is compiled.

The levels and their conditions are in the tables of `frontend/operators`.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import onnx

from odtc.core.errors import UnsupportedError
from odtc.frontend.graph import Graph, describe_node, names_read
from odtc.frontend.operators.operator import Level, Node, is_float
from odtc.frontend.operators.table import OPERATORS

MAX_LISTED = 8
_ENCODES = (
    "no gradient passes through integers that stand for floats; train the model before it is "
    "quantised"
)
# Their axis is one of the result, one after the last, or of no account if a scale is one number.
_OTHER_AXES = frozenset(
    "ConcatFromSequence DequantizeLinear Flatten OneHot QuantizeLinear SplitToSequence".split()
)
DTYPES = frozenset(
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split()
)


@dataclass(frozen=True)
class NodeReport:
    """The level of support of one node.

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


def has_no_elements(shape: Iterable[int]) -> bool:
    """Whether a size is 0; or less, as inference gives it where a window does not fit."""
    return min(shape, default=1) < 1


def check_graph(graph: Graph, trained: Iterable[str] | None = None) -> list[NodeReport]:
    """Reports on every node, in order.

    Args:
        graph: specialised, not yet normalised.
        trained: the parameters that are to be trained; all by default.
    """
    needed, in_use = _needed_nodes(graph), graph.names_in_use()
    learned = set(graph.parameters if trained is None else trained)
    reports = []
    for node in graph.nodes:
        level, reason = _level(Node(graph, node, in_use))
        differentiated = not learned.isdisjoint(node.input)
        if differentiated and _gives_floats(graph, node):
            learned.update(node.output)
        allowed = (Level.TRAINABLE,) if differentiated else (Level.TRAINABLE, Level.FORWARD_ONLY)
        blocks = id(node) in needed and level not in allowed
        reports.append(NodeReport(describe_node(node), node.op_type, level, reason, blocks))
    return reports


def require_trainable(graph: Graph, reports: Iterable[NodeReport] | None = None) -> None:
    """Checks that the graph can be trained.

    Args:
        graph: specialised, not yet normalised.
        reports: of its nodes; with all parameters trained by default.

    Raises:
        UnsupportedError: it cannot; the message names the nodes and the reasons.
    """
    reports = check_graph(graph) if reports is None else reports
    _refuse([item for item in reports if item.blocks], graph, "trained")
    for name in graph.outputs:
        if has_no_elements(graph.shapes.get(name, ())):
            raise UnsupportedError(
                f"the output has no elements: its shape is {list(graph.shapes[name])}",
                where=f"output {name}",
                hint="check the sizes that the model was exported with, and those that are given",
            )


def require_runnable(graph: Graph) -> None:
    """Checks that the graph can be run forward.

    Raises:
        UnsupportedError: it cannot; the message names the nodes and the reasons.
    """
    reports = check_graph(graph)
    _refuse([item for item in reports if item.level is Level.UNSUPPORTED], graph, "run")


def _refuse(reports: list[NodeReport], graph: Graph, done: str) -> None:
    if not reports:
        return
    lines = [f"  {report.node}: {report.level}: {report.reason}" for report in reports]
    if len(lines) > MAX_LISTED:
        lines = [*lines[:MAX_LISTED], f"  and {len(lines) - MAX_LISTED} more"]
    raise UnsupportedError(
        f"{len(reports)} of {len(graph.nodes)} nodes cannot be {done}:\n" + "\n".join(lines),
        hint="`odtc check MODEL` lists every node",
    )


def _level(node: Node) -> tuple[Level, str]:
    op_type = node.proto.op_type
    operator = OPERATORS.get(op_type)
    if operator is None:
        return Level.UNSUPPORTED, f"operator {op_type} is not supported in this version"
    read = _read_outputs(node)
    reason = (
        _no_tensors(node, read)
        or _no_axis(node)
        or operator.condition(node)
        or _unknown_shape(node, read)
    )
    if reason:
        return Level.UNSUPPORTED, reason
    encodes = operator.encodes or _gives_floats(node.graph, node.proto)
    if operator.level is Level.FORWARD_ONLY and encodes:
        return Level.FORWARD_ONLY, _ENCODES if operator.encodes else "no gradient in this version"
    return Level.TRAINABLE, ""


def _read_outputs(node: Node) -> list[str]:
    return [name for slot, name in enumerate(node.proto.output) if node.is_read(slot)]


def _no_tensors(node: Node, read: list[str]) -> str:
    """Why no program can hold the node's tensors, of whose outputs some are read."""
    graph, names = node.graph, [*filter(None, node.inputs), *read]
    for name in names:
        if graph.dtypes.get(name, "float32") not in DTYPES:
            return f"the dtype {graph.dtypes[name]} of {name!r} is not supported"
    for name in names:
        if name not in graph.constants and has_no_elements(graph.shapes.get(name, ())):
            return f"{name!r} has no elements: its shape is {list(graph.shapes[name])}"
    return ""


def _no_axis(node: Node) -> str:
    """Axes count from either end of the first input; ONNX's inference looks at those of some."""
    axis, shape = node.attrs.get("axis"), node.graph.shapes.get(next(iter(node.inputs), ""))
    if not isinstance(axis, int) or shape is None or node.proto.op_type in _OTHER_AXES:
        return ""
    if -len(shape) <= axis < len(shape):
        return ""
    return f"its axis is {axis}; {node.inputs[0]!r} has {len(shape)}"


def _unknown_shape(node: Node, read: list[str]) -> str:
    """Programs have static shapes; a size that depends on values is none."""
    unknown = [name for name in read if name not in node.graph.shapes]
    return f"the shape of {unknown[0]!r} is not known before the run" if unknown else ""


def _gives_floats(graph: Graph, node: onnx.NodeProto) -> bool:
    """Whether a gradient could flow through the node: integers and booleans carry none."""
    return any(is_float(graph.dtypes.get(name, "float32")) for name in node.output)


def _needed_nodes(graph: Graph) -> set[int]:
    """Identities of the nodes that the outputs depend on."""
    needed, nodes = set(graph.outputs), set()
    for node in reversed(graph.nodes):
        if not needed.isdisjoint(node.output):
            needed.update(names_read(node))
            nodes.add(id(node))
    return nodes
