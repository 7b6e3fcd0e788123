"""An ONNX graph by its tensors: who makes one, who reads it, and which hold stored values."""

from collections.abc import Iterator, MutableSequence, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from odtc.frontend.graph import attributes, names_read

# What hands on a stored tensor with the same values.
_VIEWS = frozenset({"Cast", "Identity", "Transpose"})

# Attributes of a Constant node that hold numbers, not a tensor.
_NUMBERS = {
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
}


@dataclass
class Tensors:
    """A graph, indexed.

    Attributes:
        graph: the graph; edits of it that add or take nodes need a new index.
        makers: tensor to the node that gives it.
        readers: tensor to the nodes that read it, in order.
        stored: initializers, and values of Constant nodes, by name.
    """

    graph: onnx.GraphProto
    makers: dict[str, onnx.NodeProto] = field(init=False)
    readers: dict[str, list[onnx.NodeProto]] = field(init=False)
    stored: dict[str, onnx.TensorProto] = field(init=False)

    def __post_init__(self) -> None:
        """Builds the index."""
        self.makers = {name: node for node in self.graph.node for name in node.output if name}
        self.readers = {}
        for node in self.graph.node:
            for name in names_read(node):
                self.readers.setdefault(name, []).append(node)
        self.stored = {tensor.name: tensor for tensor in self.graph.initializer}
        self.stored |= dict(_constants(self.graph))

    def source(self, name: str) -> tuple[str, bool] | None:
        """The stored tensor behind a name, if any, and whether it is read transposed."""
        turned = False
        while name not in self.stored:
            node = self.makers.get(name)
            if node is None or node.op_type not in _VIEWS:
                return None
            turned ^= node.op_type == "Transpose"
            name = node.input[0]
        return name, turned

    def is_shared(self, name: str) -> bool:
        """Whether more than one node, or an output, reads a tensor."""
        outputs = sum(value.name == name for value in self.graph.output)
        return len(self.readers.get(name, ())) + outputs > 1


def _constants(graph: onnx.GraphProto) -> Iterator[tuple[str, onnx.TensorProto]]:
    for node in graph.node:
        for name, value in attributes(node).items() if node.op_type == "Constant" else ():
            if name == "value":
                yield node.output[0], value
            elif name in _NUMBERS:
                yield node.output[0], numpy_helper.from_array(np.array(value, _NUMBERS[name]))


def array_of(tensor: onnx.TensorProto) -> np.ndarray:
    """The values of a stored tensor."""
    return numpy_helper.to_array(tensor)


def store(graph: onnx.GraphProto, name: str, value: np.ndarray) -> None:
    """Gives an initializer a value; a Constant node of that name gives way to it."""
    constants = [each.op_type == "Constant" and name in each.output for each in graph.node]
    _keep(graph.node, [not is_it for is_it in constants])
    _keep(graph.initializer, [tensor.name != name for tensor in graph.initializer])
    graph.initializer.append(numpy_helper.from_array(value, name))


def fresh_name(graph: onnx.GraphProto, name: str) -> str:
    """A name that no tensor of the graph has: this one, or with a number after it."""
    taken = {each for node in graph.node for each in (*node.input, *node.output)}
    taken |= {each.name for each in (*graph.input, *graph.initializer)}
    number, fresh = 1, name
    while fresh in taken:
        number, fresh = number + 1, f"{name}.{number}"
    return fresh


def drop_unread(graph: onnx.GraphProto) -> None:
    """Removes nodes, initializers and inputs that no output depends on."""
    needed = {value.name for value in graph.output}
    for place in reversed(range(len(graph.node))):
        if needed.intersection(graph.node[place].output):
            needed |= names_read(graph.node[place])
        else:
            del graph.node[place]
    known = needed | {name for node in graph.node for name in node.output}
    _keep(graph.initializer, [tensor.name in needed for tensor in graph.initializer])
    sparse = graph.sparse_initializer
    _keep(sparse, [tensor.values.name in needed for tensor in sparse])
    _keep(graph.input, [value.name in needed for value in graph.input])
    _keep(graph.value_info, [value.name in known for value in graph.value_info])


def _keep(held: MutableSequence[Any], kept: Sequence[bool]) -> None:
    """Leaves some items of a list of protobuf's, in place."""
    for place in reversed(range(len(kept))):
        if not kept[place]:
            del held[place]
