"""Pooling."""

from odtc.frontend.operators.convolution import two_dimensional
from odtc.frontend.operators.operator import Emit, Node, Operator
from odtc.frontend.operators.padding import explicit_pads
from odtc.frontend.operators.reduction import reduce


def _pool(node: Node) -> str:
    if len(node.proto.output) > 1 and node.proto.output[1]:
        return "the Indices output is not supported"
    if node.attrs.get("storage_order"):
        return "storage_order 1 is not supported"
    return two_dimensional(node)


def _global_average(node: Node, emit: Emit) -> str:
    return reduce(node, emit, "ReduceMean", node.inputs[0], list(range(2, node.rank())))


OPERATORS: dict[str, Operator] = {
    "AveragePool": Operator(condition=_pool, expand=explicit_pads),
    "GlobalAveragePool": Operator(expand=_global_average),
    "MaxPool": Operator(condition=_pool, expand=explicit_pads),
}
