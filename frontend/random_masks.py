"""Masks that stand for dropout in an export: random zeros and ones that something is multiplied by.

Exporters spell out dropout of channels, stochastic depth and dropout for SELU, and people write
dropout by hand: uniform numbers are compared with a constant share and cast, or rounded down with
the share added. Such a mask is for training: evaluation takes its mean, which leaves out dropout
whose mask is divided by the share. What is drawn otherwise is a part of the model.
"""

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import helper

from odtc.frontend.graph import Graph, describe_node
from odtc.frontend.operators.operator import Node
from odtc.frontend.operators.random import dtype_of, low_and_high, mask_node

DRAWING = frozenset(
    "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike".split()
)
# The only float dtype of a mask: the kernel's.
_FLOAT = onnx.TensorProto.FLOAT
# What a mask may go into, for its mean to have a meaning.
_LINEAR = frozenset({"Add", "Cast", "Div", "Mul", "Sub"})
_BELOW = frozenset({("Less", 0), ("LessOrEqual", 0), ("Greater", 1), ("GreaterOrEqual", 1)})


def find_masks(graph: Graph, applied: bool) -> None:
    """Puts one node in the place of each mask, or its mean where dropout is off; notes both.

    Args:
        graph: specialised, not yet normalised.
        applied: whether training steps drop anything.
    """
    made = {name: node for node in graph.nodes for name in node.output}
    nodes = []
    for node in graph.nodes:
        keep = _share(graph, made, node)
        if keep is None or not _is_linear(graph, node):
            nodes.append(node)
            continue
        output, shape = node.output[0], graph.shapes[node.output[0]]
        nodes.append(
            mask_node(output, shape, keep, node.name) if applied else _mean(graph, node, keep)
        )
        meaning = f"evaluation takes their mean, {keep:g}" if applied else "dropout is off"
        graph.notes.append(f"{describe_node(node)}: random zeros and ones, as dropout: {meaning}")
    found = any(old is not new for old, new in zip(graph.nodes, nodes, strict=True))
    graph.nodes = nodes
    if found:
        graph.drop_unused()


def note_random(graph: Graph) -> None:
    """Says what is drawn in a step, and in evaluation."""
    nodes = [node for node in graph.nodes if node.op_type in DRAWING and not _is_mask(node)]
    if nodes:
        graph.notes.append(
            f"random tensors: {len(nodes)}, the first {describe_node(nodes[0])}; each step draws "
            "others, from the seed of the step and not that of the file; evaluation draws those of "
            "step 0 each time"
        )


def _is_mask(node: onnx.NodeProto) -> bool:
    return any(item.name == "keep" for item in node.attribute)


def _mean(graph: Graph, node: onnx.NodeProto, keep: float) -> onnx.NodeProto:
    shape = graph.add_constant("shape", np.array(graph.shapes[node.output[0]], np.int64))
    value = helper.make_tensor("value", _FLOAT, [1], [keep])
    return helper.make_node("ConstantOfShape", [shape], list(node.output), node.name, value=value)


def _share(graph: Graph, made: Mapping[str, onnx.NodeProto], node: onnx.NodeProto) -> float | None:
    """The share of ones in a node's result, where that is a mask of float32 and known shape."""
    output = node.output[0] if node.output else ""
    if output not in graph.shapes or graph.dtypes.get(output, "float32") != "float32":
        return None
    rule = _FORMS.get(node.op_type)
    keep = rule(graph, made, node) if rule else None
    return keep if keep is not None and 0 < keep <= 1 else None


def _cast(graph: Graph, made: Mapping[str, onnx.NodeProto], node: onnx.NodeProto) -> float | None:
    """Of a comparison of uniform numbers and a number."""
    compared = made.get(node.input[0])
    if compared is None or compared.op_type not in {op_type for op_type, _ in _BELOW}:
        return None
    for slot, name in enumerate(compared.input):
        share = _number(graph, compared.input[1 - slot])
        if share is not None and _is_uniform(graph, made.get(name)):
            return share if (compared.op_type, slot) in _BELOW else 1 - share
    return None


def _floor(graph: Graph, made: Mapping[str, onnx.NodeProto], node: onnx.NodeProto) -> float | None:
    """Of uniform numbers and a share, added."""
    total = made.get(node.input[0])
    if total is None or total.op_type != "Add":
        return None
    for slot, name in enumerate(total.input):
        if _is_uniform(graph, made.get(name)):
            return _number(graph, total.input[1 - slot])
    return None


def _bernoulli(graph: Graph, _: Mapping[str, onnx.NodeProto], node: onnx.NodeProto) -> float | None:
    return _number(graph, node.input[0])


_FORMS = {"Bernoulli": _bernoulli, "Cast": _cast, "CastLike": _cast, "Floor": _floor}


def _is_uniform(graph: Graph, node: onnx.NodeProto | None) -> bool:
    """Whether a node draws numbers in [0, 1)."""
    if node is None or node.op_type not in ("RandomUniform", "RandomUniformLike"):
        return False
    view = Node(graph, node)
    return low_and_high(view) == (0.0, 1.0) and dtype_of(view) == "float32"


def _number(graph: Graph, name: str) -> float | None:
    """What all elements of a constant are."""
    value = graph.constants.get(name)
    if value is None or not value.size or (value != value.flat[0]).any():
        return None
    return float(value.flat[0])


def _is_linear(graph: Graph, node: onnx.NodeProto) -> bool:
    """Whether a mask is only multiplied and added."""
    name = node.output[0]
    readers = graph.consumers(name)
    divides = any(reader.op_type == "Div" and reader.input[1] == name for reader in readers)
    known = all(reader.op_type in _LINEAR for reader in readers)
    return bool(readers) and known and not divides and name not in graph.outputs
