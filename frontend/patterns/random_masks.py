"""Masks that stand for dropout in an export: random zeros and ones that something is multiplied by.

Exporters spell out dropout of channels, stochastic depth and dropout for SELU, and people write
dropout by hand: uniform numbers are compared with a constant share and cast, or rounded down with
the share added. Such a mask is for training: evaluation takes its mean, which leaves out dropout
whose mask is divided by the share; an AlphaDropout, which adds a mask too, is left out as well.
What is drawn otherwise is a part of the model.
"""

from functools import partial

import numpy as np
import onnx
from onnx import helper

from odtc.core.onnx_model.masked import AlphaDropout, alpha_dropout
from odtc.core.onnx_model.random_masks import LINEAR, Constant, Mask, Producers, mask_of
from odtc.frontend.graph import Graph, describe_node
from odtc.frontend.operators.elements.random import dtype_of, mask_node
from odtc.frontend.operators.operator import Node

DRAWING = frozenset(
    "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike".split()
)
# The only float dtype of a mask: the kernel's.
_FLOAT = onnx.TensorProto.FLOAT


def find_masks(graph: Graph, applied: bool) -> bool:
    """Puts one node in the place of each mask, or its mean where dropout is off; notes both.

    Args:
        graph: specialised, not yet normalised.
        applied: whether training steps drop anything.

    Returns:
        Whether there is a mask.
    """
    made = {name: node for node in graph.nodes for name in node.output}
    constant = partial(_number, graph)
    masks = {
        node.output[0]: mask
        for node in graph.nodes
        if (mask := _mask(graph, made, node, constant)) is not None
    }
    sums = {
        node.output[0]: alpha
        for node in graph.nodes
        if (alpha := alpha_dropout(node, made, constant)) and alpha.masked.mask in masks
    }
    nodes: list[onnx.NodeProto] = []
    for node in graph.nodes:
        output = node.output[0] if node.output else ""
        if output in masks:
            is_alpha = any(alpha.masked.mask == output for alpha in sums.values())
            nodes.append(_replaced(graph, node, masks[output].share, applied, is_alpha))
        elif output not in sums:
            nodes.append(node)
        elif applied:
            nodes += _left_out(graph, node, sums[output])
        else:
            nodes.append(helper.make_node("Identity", [sums[output].data], [output], node.name))
    graph.nodes = nodes
    if masks:
        graph.drop_unused()
    return bool(masks)


def _replaced(
    graph: Graph, node: onnx.NodeProto, keep: float, applied: bool, is_alpha: bool
) -> onnx.NodeProto:
    """The one node in the place of a mask."""
    said = "random zeros and ones, as dropout"
    meaning = f"evaluation takes their mean, {keep:g}"
    if is_alpha:
        said, meaning = "random zeros and ones of an AlphaDropout", "evaluation leaves it out"
    graph.notes.append(f"{describe_node(node)}: {said}: {meaning if applied else 'dropout is off'}")
    if not applied:
        return _mean(graph, node, keep)
    return mask_node(node.output[0], graph.shapes[node.output[0]], keep, node.name)


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


def _mask(graph: Graph, made: Producers, node: onnx.NodeProto, constant: Constant) -> Mask | None:
    """The mask that a node gives, of float32 and known shape, and read where its mean means one."""
    output = node.output[0] if node.output else ""
    if output not in graph.shapes or graph.dtypes.get(output, "float32") != "float32":
        return None
    mask = mask_of(node, made, constant)
    if mask is None or not _is_linear(graph, node):
        return None
    is_drawn_as_float = mask.drawn is node or dtype_of(Node(graph, mask.drawn)) == "float32"
    return mask if is_drawn_as_float else None


def _left_out(graph: Graph, node: onnx.NodeProto, alpha: AlphaDropout) -> list[onnx.NodeProto]:
    """The sum of an AlphaDropout, to which something is added that is zero while it drops.

    Evaluation has the mean of the mask in its place: the sum then gives `slope * share * data`, and
    `mask * (1 - mask)` times the rest makes it the data.
    """
    output, data, masked = node.output[0], alpha.data, alpha.masked
    share = masked.share
    rest = (1.0 - masked.slope * share) / (share * (1.0 - share))
    one, factor = (graph.add_constant("mask", np.float32(number)) for number in (1.0, rest))
    names = [f"{output}/{part}" for part in ("dropped", "zero", "none", "scale", "term")]
    dropped, zero, none, scale, term = names
    shape = graph.shapes[masked.mask]
    graph.shapes |= dict.fromkeys((zero, none, scale), shape)
    graph.shapes |= dict.fromkeys((dropped, term), graph.shapes[output])
    graph.dtypes |= dict.fromkeys(names, "float32")
    summed = onnx.NodeProto()
    summed.CopyFrom(node)
    summed.output[0] = dropped
    return [
        summed,
        helper.make_node("Sub", [one, masked.mask], [zero]),
        helper.make_node("Mul", [masked.mask, zero], [none]),
        helper.make_node("Mul", [none, factor], [scale]),
        helper.make_node("Mul", [data, scale], [term]),
        helper.make_node("Add", [dropped, term], [output], node.name),
    ]


def _number(graph: Graph, name: str) -> float | None:
    """The number that all elements of a constant are; None where they differ."""
    value = graph.constants.get(name)
    if value is None or not value.size or (value != value.flat[0]).any():
        return None
    return float(value.flat[0])


def _is_linear(graph: Graph, node: onnx.NodeProto) -> bool:
    """Whether a mask is only multiplied and added."""
    name = node.output[0]
    readers = graph.consumers(name)
    divides = any(reader.op_type == "Div" and reader.input[1] == name for reader in readers)
    known = all(reader.op_type in LINEAR for reader in readers)
    return bool(readers) and known and not divides and name not in graph.outputs
