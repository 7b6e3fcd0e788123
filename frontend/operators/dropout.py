"""Dropout."""

from odtc.frontend.graph import describe_node
from odtc.frontend.operators.operator import Emit, Node, Operator


def _dropout(node: Node, _: Emit) -> str:
    node.graph.notes.append(
        f"{describe_node(node.proto)}: dropout is not applied; this version trains without"
    )
    return node.inputs[0]


def _first_output(node: Node) -> str:
    return "the mask cannot be used" if node.is_read(1) else ""


OPERATORS: dict[str, Operator] = {
    "Dropout": Operator(condition=_first_output, expand=_dropout),
}
