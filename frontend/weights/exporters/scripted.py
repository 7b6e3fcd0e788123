"""Separates what PyTorch's exporter by TorchScript merged.

Outside of its training mode it stores equal tensors once, and gives the others their names by an
Identity of the stored one:

    n2.weight = Identity (n1.weight)

A parameter that modules share has one name only, and no Identity. Where a shared embedding was
transposed for the output layer, there are two tensors, of which one is the other transposed.
"""

import numpy as np
import onnx

from odtc.frontend.weights.editing import APART, Editing
from odtc.frontend.weights.evidence.names import is_entry
from odtc.frontend.weights.exporters.views import turn

PRODUCER = "pytorch"
# Numbers of a weight that are compared before all of them are.
_FIRST = 64


def separate_scripted(model: onnx.ModelProto) -> None:
    """Gives each parameter a tensor of its own, in place, and a transposed copy its embedding."""
    editing = Editing(model.graph)
    _identities(editing)
    _turned_copies(editing)


def _identities(editing: Editing) -> None:
    nodes = editing.graph.node
    outputs = {value.name for value in editing.graph.output}
    for place in reversed(range(len(nodes))):
        node = nodes[place]
        if node.op_type != "Identity" or node.input[0] not in editing.tensors:
            continue
        name = node.output[0]
        if is_entry(name, PRODUCER) and name not in outputs:
            editing.copy(node.input[0], name, f"{APART}: {node.input[0]}")
            del nodes[place]


def _turned_copies(editing: Editing) -> None:
    """An embedding, and the weight of the output layer that is its transposed copy."""
    tables = [
        node.input[0]
        for node in editing.graph.node
        if node.op_type == "Gather" and node.input[0] in editing.tensors
    ]
    copies = set()
    for place, node in enumerate(editing.graph.node):
        weight = node.input[1] if node.op_type == "MatMul" else ""
        if weight not in editing.tensors or is_entry(weight, PRODUCER):
            continue
        table = next((name for name in tables if _is_turned(editing, weight, name)), None)
        if table is not None:
            turn(editing, place, table)
            copies.add(weight)
    editing.insert_nodes()
    editing.drop_unread(copies)


def _is_turned(editing: Editing, copy: str, original: str) -> bool:
    """Whether a matrix is another one transposed, and not by chance."""
    sizes = list(editing.tensors[original].dims)
    if len(sizes) != 2 or list(editing.tensors[copy].dims) != sizes[::-1]:
        return False
    one, other = editing.value(copy), editing.value(original).T
    if not np.array_equal(one[:1, :_FIRST], other[:1, :_FIRST]):
        return False
    return bool(np.array_equal(one, other)) and one.min() != one.max()
