"""`all-linear`: the layers that Hugging Face PEFT adapts by that name.

These are the products with a matrix, but for the head: a layer that no other layer comes after. So
a head that is new, or as wide as a vocabulary, gets no adapter. Nor do the weights that
nn.MultiheadAttention reads itself: to PEFT those of query, key and value are no layer, and what it
puts beside that of the output is not applied.
"""

from collections.abc import Collection, Sequence

from odtc.core.adapters import read_by_attention
from odtc.frontend.graph import Graph, names_read
from odtc.frontend.trained.layers import Layer
from odtc.frontend.trained.lora_forms import refusal

ALL_LINEAR = "all-linear"
_PRODUCTS = ("Gemm", "MatMul")


def all_linear(graph: Graph, layers: Sequence[Layer], positions: Collection[int]) -> list[Layer]:
    """Those of some layers that are products with a matrix, and no head; a note names the others.

    Args:
        graph: with the layers.
        layers: to choose from.
        positions: of the nodes of all layers of the graph.
    """
    products = [
        layer
        for layer in layers
        if layer.op_type in _PRODUCTS and not refusal(layer, _rank(graph, layer))
    ]
    read = read_by_attention(
        (layer.weight for layer in products), (*graph.parameters, *graph.constants)
    )
    for name in read:
        graph.notes.append(
            f"LoRA: all-linear leaves out {name!r}: nn.MultiheadAttention reads it itself, where "
            "PEFT applies no adapter"
        )
    products = [layer for layer in products if layer.weight not in read]
    leading = _leading(graph, positions)
    heads = [layer for layer in products if leading.isdisjoint(layer.node.output)]
    for layer in heads:
        graph.notes.append(
            f"LoRA: all-linear leaves out {layer.weight!r}: no other layer comes after it, so it "
            "is a head"
        )
    return [layer for layer in products if layer not in heads]


def _rank(graph: Graph, layer: Layer) -> int:
    found = graph.parameters.get(layer.weight)
    return (graph.constants[layer.weight] if found is None else found).ndim


def _leading(graph: Graph, positions: Collection[int]) -> set[str]:
    """The tensors from which a layer is reached."""
    leading = set[str]()
    for position in reversed(range(len(graph.nodes))):
        node = graph.nodes[position]
        if position in positions or not leading.isdisjoint(node.output):
            leading.update(names_read(node))
    return leading
