"""Takes the float tensors of Constant nodes and of bodies out of the nodes of a model.

So there is one place where it is decided what is a weight, wherever the file has it. A body reads
what was taken out of it as any tensor of the graph around it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import onnx

from odtc.core.onnx_model.weight_places import FLOATS, bodies_of, constant_tensor
from odtc.frontend.graph import copies_of


@dataclass
class Lifted:
    """The nodes of a model without weights, and these.

    Attributes:
        nodes: copies, in order.
        tensors: all initializers, and the float tensors of Constant nodes and bodies, by name.
        written: names of those that are a Constant node in the file.
    """

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    tensors: dict[str, onnx.TensorProto] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)


def lift(graph: onnx.GraphProto) -> Lifted:
    """The parts of a graph; the model itself is left as it is."""
    lifted = Lifted(tensors={tensor.name: tensor for tensor in graph.initializer})
    lifted.nodes = _without_weights(graph.node, lifted)
    return lifted


def _without_weights(nodes: Iterable[onnx.NodeProto], lifted: Lifted) -> list[onnx.NodeProto]:
    kept = []
    for node in nodes:
        tensor = constant_tensor(node)
        if tensor is None:
            kept.append(node)
        else:
            lifted.tensors[node.output[0]] = tensor
            lifted.written.add(node.output[0])
    copies = copies_of(kept)
    for node, copy in zip(kept, copies, strict=True):
        _lift_out_of_bodies(node, copy, lifted)
    return copies


def _lift_out_of_bodies(node: onnx.NodeProto, copy: onnx.NodeProto, lifted: Lifted) -> None:
    """Takes the float tensors out of the bodies of a node's copy."""
    for original, body in zip(bodies_of(node), bodies_of(copy), strict=True):
        floats = [tensor for tensor in original.initializer if tensor.data_type in FLOATS]
        lifted.tensors |= {tensor.name: tensor for tensor in floats}
        others = [tensor for tensor in original.initializer if tensor.data_type not in FLOATS]
        inner = _without_weights(original.node, lifted)
        del body.initializer[:], body.node[:]
        body.initializer.extend(others)
        body.node.extend(inner)
