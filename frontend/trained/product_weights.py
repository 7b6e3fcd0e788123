"""Matrices that nothing but products and embeddings read, and the axis along which they add up."""

from collections import Counter

from odtc.frontend.graph import Graph, attributes, names_read
from odtc.frontend.trained.layers import Layer, layers_of

# By operator, the input that may be read as codes.
_SLOTS = {"Gather": 0, "Gemm": 1, "MatMul": 1}
_MATRIX = 2


def term_axes(graph: Graph) -> dict[str, int]:
    """By the name of each such matrix, the axis of the terms of its products' sums.

    That of a table whose rows are gathered is its second, as of a head that is tied to it.

    Args:
        graph: not yet normalised.
    """
    layers = [each for each in layers_of(graph) if _is_read_as_codes(each)]
    readers, axes = Counter(each.weight for each in layers), dict[str, int]()
    for layer in layers:
        axes[layer.weight] = max(axes.get(layer.weight, 0), _axis(layer))
    turned, reads = _reads(graph)
    for name, source in turned.items():
        reads[source] += reads[name] - 1
    whole = {name for name, count in readers.items() if reads[name] == count}
    is_matrix = {name for name in whole if graph.parameters[name].ndim == _MATRIX}
    return {name: axis for name, axis in axes.items() if name in is_matrix - {*graph.outputs}}


def _is_read_as_codes(layer: Layer) -> bool:
    if _SLOTS.get(layer.op_type) != layer.slot:
        return False
    is_gather = layer.op_type == "Gather"
    return not (is_gather and (layer.transposed or attributes(layer.node).get("axis", 0)))


def _axis(layer: Layer) -> int:
    return 1 if layer.op_type == "Gather" or layer.transposed else 0


def _reads(graph: Graph) -> tuple[dict[str, str], Counter[str]]:
    """Transposes of parameters, by what they give; and how often each tensor is read."""
    turned, reads = dict[str, str](), Counter[str](graph.outputs)
    for node in graph.nodes:
        if node.op_type == "Mul" and node.input[0] == node.input[1]:
            # Squares, of a norm: each element is read where it is.
            continue
        reads.update([*node.input, *(names_read(node) - {*node.input})])
        if node.op_type == "Transpose" and node.input[0] in graph.parameters:
            turned[node.output[0]] = node.input[0]
    return turned, reads
