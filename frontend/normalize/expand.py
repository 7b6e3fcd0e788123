"""Puts simpler nodes in the place of those that `frontend/operators` has an expansion for."""

from collections.abc import Mapping, Sequence

import onnx

from odtc.frontend.graph import Graph
from odtc.frontend.operators.operator import Emit, Node
from odtc.frontend.operators.table import OPERATORS


def expand_nodes(graph: Graph) -> None:
    """Expands until nothing is left to expand; the shapes of what is new are inferred between.

    Raises:
        ModelError: the shapes do not fit together.
    """
    while _expand_once(graph):
        graph.drop_unused()
        graph.infer_shapes()


def _expand_once(graph: Graph) -> bool:
    nodes: list[onnx.NodeProto] = []
    alias: dict[str, str] = {}
    # A node asks for readers of its own outputs, which come after it and are still as they were.
    in_use = graph.names_in_use()
    for proto in graph.nodes:
        for slot, name in enumerate(proto.input):
            proto.input[slot] = alias.get(name, name)
        replaced = _expansion(Node(graph, proto, in_use))
        if replaced is None:
            nodes.append(proto)
        else:
            nodes.extend(replaced[0])
            alias |= replaced[1]
            _keep_types(graph, replaced[1])
            _keep_names(graph, *replaced)
    graph.nodes = nodes
    graph.outputs = [alias.get(name, name) for name in graph.outputs]
    return bool(alias)


def _keep_types(graph: Graph, alias: dict[str, str]) -> None:
    """Gives the replacement of a tensor its shape and type: the next node may ask for them."""
    for old, new in alias.items():
        if old in graph.shapes:
            graph.shapes[new] = graph.shapes[old]
        if old in graph.dtypes:
            graph.dtypes[new] = graph.dtypes[old]


def _keep_names(graph: Graph, nodes: Sequence[onnx.NodeProto], alias: Mapping[str, str]) -> None:
    """Notes which of the new tensors stand for one of the model."""
    stands_for = {new: graph.originals.get(old, old) for old, new in alias.items()}
    graph.originals |= {name: stands_for.get(name, "") for node in nodes for name in node.output}


def _expansion(node: Node) -> tuple[list[onnx.NodeProto], dict[str, str]] | None:
    """The nodes in place of a node, and the new names of its outputs."""
    operator = OPERATORS.get(node.proto.op_type)
    if operator is None or operator.expand is None:
        return None
    emit = Emit(node)
    results = operator.expand(node, emit)
    if results is None:
        return None
    results = [results] if isinstance(results, str) else results
    pairs = zip(node.proto.output, results, strict=False)
    return emit.nodes, {old: new for old, new in pairs if old}
