"""Gathers rows of a quantised table before they are dequantised, where the file does it after.

An embedding reads some rows in a step. Of a table that is dequantised as a whole, all others would
be computed for nothing, and take four times the bytes of the integers.
"""

from collections.abc import Mapping
from itertools import count

import numpy as np
import onnx
from onnx import helper

from odtc.frontend.graph import Graph, attributes
from odtc.frontend.normalize.constants import is_quantised

# What a dequantisation consists of, once it is spelled out.
_ELEMENTWISE = frozenset(("Add", "Cast", "Div", "Mul", "Sub"))
_Makers = Mapping[str, onnx.NodeProto]


def gather_rows(graph: Graph) -> None:
    """Rewrites each Gather of rows of a table that is computed from quantised numbers.

    Raises:
        ModelError: the shapes do not fit together.
    """
    makers = {node.output[0]: node for node in graph.nodes if _keeps_rows(graph, node)}
    nodes: list[onnx.NodeProto] = []
    for node in graph.nodes:
        if _reads_quantised_rows(graph, makers, node):
            rows = _Rows(graph, makers, node)
            rows.take(node.input[0], len(graph.shapes[node.input[0]]))
            nodes += rows.nodes
        else:
            nodes.append(node)
    if len(nodes) > len(graph.nodes):
        graph.nodes = nodes
        graph.infer_shapes()


def _keeps_rows(graph: Graph, node: onnx.NodeProto) -> bool:
    """Whether the rows of what a node gives are computed from rows of what it reads."""
    if node.op_type != "Reshape":
        return node.op_type in _ELEMENTWISE
    before, after = (graph.shapes.get(name, ()) for name in (node.input[0], node.output[0]))
    return before[:1] == after[:1] != ()


def _reads_quantised_rows(graph: Graph, makers: _Makers, node: onnx.NodeProto) -> bool:
    if node.op_type != "Gather" or attributes(node).get("axis", 0) or node.input[0] not in makers:
        return False
    leaves = _leaves(makers, node.input[0])
    return (
        # The row of a single number has one dimension less than what it is multiplied by.
        bool(graph.shapes.get(node.input[1]))
        and leaves <= graph.constants.keys() | graph.parameters.keys()
        and any(is_quantised(graph.constants[name]) for name in leaves & graph.constants.keys())
    )


def _leaves(makers: _Makers, name: str) -> set[str]:
    """What an elementwise computation begins with."""
    seen, waiting = {name}, [name]
    while waiting:
        maker = makers.get(waiting.pop())
        new = {*maker.input} - seen if maker else set[str]()
        seen |= new
        waiting += new
    return {each for each in seen if each not in makers}


class _Rows:
    """The nodes in place of a Gather.

    Args:
        graph: that they are of.
        makers: elementwise nodes, by what they give.
        gather: the node.
    """

    def __init__(self, graph: Graph, makers: _Makers, gather: onnx.NodeProto) -> None:
        self._graph, self._makers, self._gather = graph, makers, gather
        self._numbers = count()
        self._taken: dict[str, str] = {}
        self.nodes: list[onnx.NodeProto] = []

    def take(self, name: str, rank: int) -> str:
        """Emits the rows of what broadcasts against a table of a rank, and returns their name."""
        if name not in self._taken:
            self._taken[name] = self._take(name, rank)
        return self._taken[name]

    def _take(self, name: str, rank: int) -> str:
        (table, ids), shapes = self._gather.input, self._graph.shapes
        maker, shape = self._makers.get(name), shapes[name]
        if maker is not None and maker.op_type == "Reshape":
            rows = self.take(maker.input[0], len(shapes[maker.input[0]]))
            rest = np.array([*shapes[ids], *shape[1:]], np.int64)
            made = helper.make_node("Reshape", [rows, self._graph.add_constant("rows", rest)], [])
        elif maker is not None:
            operands = [self.take(each, rank) for each in maker.input]
            made = helper.make_node(maker.op_type, operands, [])
            made.attribute.extend(maker.attribute)
        elif len(shape) == rank and shape[0] == shapes[table][0]:
            made = helper.make_node("Gather", [name, ids], [])
        else:
            return name
        result = self._gather.output[0]
        if name != table:
            result = f"{result}::rows{next(self._numbers)}"
            self._graph.originals[result] = ""
        made.name = self._gather.name
        made.output.append(result)
        self.nodes.append(made)
        return result
