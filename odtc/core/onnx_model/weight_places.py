"""Where the weights of an ONNX file lie: initializers, Constant nodes, and those of bodies."""

from collections.abc import Iterator

import onnx
from onnx import TensorProto

# Element types of weights. What is narrower or wider than float32 is trained in float32.
FLOATS = frozenset(
    {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE}
)
_BODIES = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)


def bodies_of(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """The subgraphs of a node."""
    attributes = node.attribute
    if not attributes:  # Most nodes; all walks ask.
        return []
    held = [item for item in attributes if item.type in _BODIES]
    return [body for item in held for body in (item.g, *item.graphs)]


def constant_tensor(node: onnx.NodeProto) -> onnx.TensorProto | None:
    """The float tensor that a Constant node gives; None where it gives anything else."""
    if node.op_type != "Constant":
        return None
    held = (item.t for item in node.attribute if item.name == "value")
    return next((tensor for tensor in held if tensor.data_type in FLOATS), None)


def float_tensors(graph: onnx.GraphProto) -> Iterator[tuple[str, onnx.TensorProto]]:
    """The float tensors of a graph and its bodies, by the names that nodes read them by.

    `odtc.frontend.file.weight_names` makes the names unique when a file is read.
    """
    for tensor in graph.initializer:
        if tensor.data_type in FLOATS:
            yield tensor.name, tensor
    for node in graph.node:
        tensor = constant_tensor(node)
        if tensor is not None:
            yield node.output[0], tensor
        for body in bodies_of(node):
            yield from float_tensors(body)
