"""Convolutions."""

from odtc.frontend.operators.operator import Node, Operator
from odtc.frontend.operators.padding import explicit_pads


def two_dimensional(node: Node) -> str:
    """Refuses other than 2-D windows, and dilations."""
    if node.rank() != 4:
        return f"only 2-D (rank 4) is supported; the input has rank {node.rank()}"
    dilations = node.attrs.get("dilations", [])
    if any(d != 1 for d in dilations):
        return f"dilations {dilations} have no gradient yet; only 1 is supported"
    return ""


OPERATORS: dict[str, Operator] = {
    "Conv": Operator(condition=two_dimensional, expand=explicit_pads),
}
