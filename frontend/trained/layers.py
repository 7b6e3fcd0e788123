"""The layers of an ONNX graph: nodes that apply a weight, found by structure and not by name.

Exporters name parameters as they like, so what is a weight, its output channels and its bias
follow from how the nodes read them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import onnx

from odtc.frontend.graph import Graph, attributes, describe_node

# Operator to the slots of its inputs that may be weights. A MatMul's weight is on either side.
WEIGHT_SLOTS: dict[str, tuple[int, ...]] = {
    "Conv": (1,),
    "ConvTranspose": (1,),
    "GRU": (1, 2),
    "Gather": (0,),
    "Gemm": (0, 1),
    "LSTM": (1, 2),
    "MatMul": (0, 1),
    "RNN": (1, 2),
}
# Operator to the slot of its own bias. Any of them, but a Gather, may be followed by an Add of one.
_BIAS_SLOT = {"Conv": 2, "ConvTranspose": 2, "GRU": 3, "Gemm": 2, "LSTM": 3, "RNN": 3}


@dataclass(frozen=True)
class Layer:
    """A node that applies a weight.

    Attributes:
        node: it.
        position: its index among the graph's nodes.
        weight: the parameter.
        slot: the input of the node that the weight is.
        transposed: whether the node reads a matrix transposed.
        biases: parameters that are added to its result.
    """

    node: onnx.NodeProto
    position: int
    weight: str
    slot: int
    transposed: bool
    biases: tuple[str, ...]

    @property
    def op_type(self) -> str:
        """The ONNX operator."""
        return self.node.op_type

    def __str__(self) -> str:
        return f"{self.weight!r} at {describe_node(self.node)}"


def layers_of(graph: Graph) -> list[Layer]:
    """The layers in topological order; a node with two weights is two of them."""
    turned, added = dict(_transposes(graph)), _added(graph)
    layers = []
    for position, node in enumerate(graph.nodes):
        for slot in WEIGHT_SLOTS.get(node.op_type, ()):
            name = node.input[slot] if slot < len(node.input) else ""
            weight = turned.get(name, name)
            if weight in graph.parameters and graph.parameters[weight].ndim > 1:
                transposed = (name in turned) != reads_transposed(node, slot)
                biases = tuple(_biases(graph, node, added))
                layers.append(Layer(node, position, weight, slot, transposed, biases))
    return layers


def _transposes(graph: Graph) -> Iterator[tuple[str, str]]:
    """Each transposed view of a parameter matrix, with the parameter."""
    for node in graph.nodes:
        source = node.input[0] if node.input else ""
        if node.op_type != "Transpose" or source not in graph.parameters:
            continue
        perm = attributes(node).get("perm", (1, 0))
        if graph.parameters[source].ndim == 2 and list(perm) == [1, 0]:  # type: ignore[call-overload]
            yield node.output[0], source


def reads_transposed(node: onnx.NodeProto, slot: int) -> bool:
    """Whether a node reads the matrix in a slot transposed."""
    flag = ("transA", "transB")[slot] if node.op_type == "Gemm" else ""
    return bool(attributes(node).get(flag, 0))


def _added(graph: Graph) -> Mapping[str, list[str]]:
    """The operands of an Add, by the name of each."""
    added: dict[str, list[str]] = {}
    for node in graph.nodes:
        for name in dict.fromkeys(node.input if node.op_type == "Add" else ()):
            added.setdefault(name, []).extend(node.input)
    return added


def _biases(graph: Graph, node: onnx.NodeProto, added: Mapping[str, list[str]]) -> Iterator[str]:
    slot = _BIAS_SLOT.get(node.op_type, len(node.input))
    candidates = list(node.input[slot : slot + 1])
    if node.op_type != "Gather":
        candidates += added.get(node.output[0], ())
    for name in candidates:
        if name in graph.parameters and _is_vector(graph.parameters[name].shape):
            yield name


def _is_vector(shape: tuple[int, ...]) -> bool:
    return sum(size != 1 for size in shape) <= 1
