"""Changes to an ONNX model that peers need."""

import onnx
from onnx import helper


def without_dropout(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy in which Dropout is the identity, so that two trainers can be compared."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    nodes = [_kept(node) for node in copy.graph.node]
    del copy.graph.node[:]
    copy.graph.node.extend(nodes)
    return copy


def _kept(node: onnx.NodeProto) -> onnx.NodeProto:
    if node.op_type != "Dropout":
        return node
    return helper.make_node("Identity", node.input[:1], node.output[:1], name=node.name)
