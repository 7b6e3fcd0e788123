"""Lifts Constant nodes and evaluates what depends on constants and static shapes only."""

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

from odtc.frontend.graph import Graph

# Shape arithmetic is a few numbers; anything larger is left to the compiler.
MAX_ELEMENTS = 1 << 16
FOLDABLE = frozenset(
    "Add Cast Concat ConstantOfShape Div Equal Expand Floor Gather Mul Neg Range ReduceProd "
    "Reshape Slice Squeeze Sub Transpose Unsqueeze Where".split()
)
# A few numbers can make these as large as they like.
EXPANDING = frozenset(("ConstantOfShape", "Expand", "Range"))


def fold_constants(graph: Graph) -> None:
    """Replaces Constant, Shape and shape arithmetic by their values."""
    kept = []
    for node in graph.nodes:
        value = _value(graph, node)
        if value is None:
            kept.append(node)
        else:
            graph.constants[node.output[0]] = value
            graph.shapes[node.output[0]] = value.shape
            graph.dtypes[node.output[0]] = value.dtype.name
    graph.nodes = kept


def _value(graph: Graph, node: onnx.NodeProto) -> np.ndarray | None:
    if node.op_type == "Constant":
        return _evaluate(graph, node)
    if node.op_type == "Shape" and not node.attribute and node.input[0] in graph.shapes:
        return np.array(graph.shapes[node.input[0]], np.int64)
    if node.op_type not in FOLDABLE or len(node.output) != 1:
        return None
    if not all(name in graph.constants for name in node.input if name):
        return None
    return _evaluate(graph, node) if _is_small(graph, node) else None


def _is_small(graph: Graph, node: onnx.NodeProto) -> bool:
    """Whether the node's value is a few numbers: by its shape, else by its inputs."""
    shape = graph.shapes.get(node.output[0])
    if shape is not None:
        return np.prod(shape, dtype=float) <= MAX_ELEMENTS
    read = sum(graph.constants[name].size for name in node.input if name)
    return node.op_type not in EXPANDING and read <= MAX_ELEMENTS


def _evaluate(graph: Graph, node: onnx.NodeProto) -> np.ndarray:
    """Runs one node with ONNX's reference implementation."""
    feeds = {name: graph.constants[name] for name in node.input if name}
    inputs = [helper.make_tensor_value_info(n, 0, None) for n in feeds]
    for value, array in zip(inputs, feeds.values(), strict=True):
        value.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(array.dtype)
    output = onnx.ValueInfoProto(name=node.output[0])
    model = helper.make_model(
        helper.make_graph([node], "fold", inputs, [output]),
        opset_imports=[helper.make_opsetid("", graph.opset)],
    )
    (value,) = ReferenceEvaluator(model).run(list(node.output), feeds)
    return np.asarray(value)
