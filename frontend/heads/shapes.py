"""Shapes between a classifier and the output that name its number of classes."""

from collections.abc import Iterable

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

from odtc.core.errors import UnsupportedError
from odtc.frontend.graph import describe_node
from odtc.frontend.heads.classifier import AT, Classifier
from odtc.frontend.heads.tensors import Tensors, array_of, fresh_name, store
from odtc.frontend.normalize.constants import BOUNDED

# Where a Reshape's target is computed, from the shape of its data, it is this many nodes at most.
_MOST_NODES = 64


def follow_classes(
    graph: onnx.GraphProto, old: Classifier, classes: int, opset: int, said: list[str]
) -> None:
    """Gives reshapes, and what the file says of shapes, the new number of classes.

    Args:
        graph: of the model, its classifier resized.
        old: the classifier as it was.
        classes: how many there are now.
        opset: version of the default operator set.
        said: what was done; lines are added.

    Raises:
        UnsupportedError: a reshape's target depends on the input, or cuts the scores.
    """
    for node in old.behind:
        if node.op_type == "Reshape":
            target = _constant(graph, node.input[1], opset)
            _retarget(graph, node, target, (old.classes, classes), said)
    path = {*old.node.output, *old.bias_node.output, *_outputs(old.behind)}
    for value in [each for each in graph.value_info if each.name in path]:
        graph.value_info.remove(value)
    for value in graph.output:
        for dim in value.type.tensor_type.shape.dim:
            if value.name == old.output and dim.dim_value == old.classes:
                dim.dim_value = classes


def _outputs(nodes: Iterable[onnx.NodeProto]) -> Iterable[str]:
    return (name for node in nodes for name in node.output)


def _retarget(
    graph: onnx.GraphProto,
    node: onnx.NodeProto,
    target: np.ndarray | None,
    sizes: tuple[int, int],
    said: list[str],
) -> None:
    """Puts the new number of classes where a constant target has the old one."""
    before, classes = sizes
    if target is None:
        raise UnsupportedError(
            "the shape after the classifier is computed from the input",
            where=f"node {describe_node(node)}",
            hint=AT,
        )
    if before not in target:
        if len(target) == 2 and -1 in target:
            return
        raise UnsupportedError(
            f"after the classifier its {before} scores become {target.tolist()}: they are not one "
            "for each class",
            where=f"node {describe_node(node)}",
            hint=AT,
        )
    new = np.where(target == before, classes, target).astype(np.int64)
    node.input[1] = fresh_name(graph, "head.shape")
    store(graph, node.input[1], new)
    said.append(f"{describe_node(node)}: the shape {target.tolist()} is now {new.tolist()}")


def _constant(graph: onnx.GraphProto, name: str, opset: int) -> np.ndarray | None:
    """The value of a tensor that is stored, or computed from stored ones; None where it is not."""
    tensors = Tensors(graph)
    wanted, nodes, held = [name], dict[int, onnx.NodeProto](), dict[str, np.ndarray]()
    while wanted:
        each = wanted.pop()
        node = tensors.makers.get(each)
        if each in tensors.stored:
            held[each] = array_of(tensors.stored[each])
        elif node is not None and node.op_type in BOUNDED and len(nodes) < _MOST_NODES:
            nodes[id(node)] = node
            wanted += filter(None, node.input)
        else:
            return None
    if name in held:
        return held[name]
    inputs = [onnx.ValueInfoProto(name=each) for each in held]
    ordered = [node for node in graph.node if id(node) in nodes]
    made = helper.make_graph(ordered, "shape", inputs, [onnx.ValueInfoProto(name=name)])
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", opset)])
    (value,) = ReferenceEvaluator(model).run([name], held)
    return np.asarray(value)
