"""Operators of `ai.onnx.ml`, as exporters of scikit-learn write them.

Scores of classes come out as a tensor; what makes maps and labels of them is left out. The simple
ones on the way to a score become ONNX's own. Their coefficients are attributes of a node: these are
constants, and never trained.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx

from odtc.frontend.graph import Graph, attributes, describe_node, names_read
from odtc.frontend.normalize.control.subgraphs import Inlined, rename

DOMAIN = "ai.onnx.ml"
_FLOAT = onnx.TensorProto.FLOAT
_AXES_INPUT_SINCE = 18
_LEARNED = frozenset({"LinearClassifier", "LinearRegressor"})
_UNTRAINED = (
    "{node}: its coefficients are not trained: they are attributes of a node, not tensors; a dense "
    "layer in their place is trained, such as a torch.nn.Linear that is given them"
)
# Adds the nodes in place of one, and tells whether it could.
Rule = Callable[[Graph, onnx.NodeProto, dict[str, Any], Inlined], bool]


def lower_classical(graph: Graph) -> None:
    """Puts ONNX's own operators in place of those that have a form, and leaves out labels.

    Args:
        graph: as it was read. What is left of the domain is refused later.
    """
    if not any(node.domain == DOMAIN for node in graph.nodes):
        return
    _take_scores(graph)
    nodes: list[onnx.NodeProto] = []
    for node in graph.nodes:
        inlined = Inlined(graph, node.output[0])
        if not _lowered(graph, node, inlined):
            nodes.append(node)
            continue
        # What has no tensor, such as a label that is a string, goes with all that read it.
        given = {
            new: old for old, new in zip(node.output, inlined.results, strict=False) if old and new
        }
        nodes.extend(rename(each, given) for each in inlined.nodes)
        if node.op_type in _LEARNED:
            graph.leave_untrained(_UNTRAINED.format(node=describe_node(node)))
    graph.nodes = nodes
    _leave_out_labels(graph)


def _lowered(graph: Graph, node: onnx.NodeProto, inlined: Inlined) -> bool:
    rule = _RULES.get(node.op_type) if node.domain == DOMAIN else None
    return rule is not None and rule(graph, node, attributes(node), inlined)


def _take_scores(graph: Graph) -> None:
    """Names the scores as the maps that a ZipMap makes of them, which goes."""
    for zipped in [node for node in graph.nodes if node.op_type == "ZipMap"]:
        scores, maps = zipped.input[0], zipped.output[0]
        graph.nodes = [rename(node, {scores: maps}) for node in graph.nodes if node is not zipped]
        graph.outputs = [maps if name == scores else name for name in graph.outputs]
        graph.dtypes[maps] = "float32"
        graph.notes.append(f"{describe_node(zipped)}: left out; {maps!r} is the tensor of scores")
        _as_softmax(graph, maps)


def _as_softmax(graph: Graph, scores: str) -> None:
    """Writes the probabilities of two classes, of a sigmoid, as the softmax that they are."""
    made = {name: node for node in graph.nodes for name in node.output}
    pair = made.get(scores)
    if pair is None or pair.op_type != "Concat" or len(pair.input) != 2:
        return
    rest, sigmoid = (made.get(name) for name in pair.input)
    if rest is None or sigmoid is None or sigmoid.op_type != "Sigmoid" or rest.op_type != "Sub":
        return
    one = graph.constants.get(rest.input[0])
    if one is None or one.size != 1 or one.item() != 1 or rest.input[1] != pair.input[1]:
        return
    inlined = Inlined(graph, scores)
    logit = sigmoid.input[0]
    (zero,) = inlined.emit("Mul", logit, graph.add_constant("zero", np.zeros((), one.dtype)))
    (logits,) = inlined.emit("Concat", zero, logit, axis=1)
    inlined.emit("Softmax", logits, axis=1)
    inlined.nodes[-1].output[0] = scores
    at = graph.nodes.index(pair)
    graph.nodes[at : at + 1] = inlined.nodes


def _leave_out_labels(graph: Graph) -> None:
    """Drops outputs that are no floats, or that a node of the domain has a part in."""
    known = set[str]()
    for node in graph.nodes:
        if node.domain == DOMAIN or names_read(node) & known:
            known.update(node.output)
    made = {name for node in graph.nodes for name in node.output}
    labels = [
        name
        for name in graph.outputs
        if name in known or name not in made or "float" not in graph.dtypes.get(name, "float32")
    ]
    kept = [name for name in graph.outputs if name not in labels]
    if labels and kept:
        graph.notes.append(f"labels are left out: {', '.join(labels)}")
        graph.outputs = kept
    graph.drop_unused()


def _single(node: onnx.NodeProto, inlined: Inlined) -> str:
    return inlined.emit("Cast", node.input[0], to=_FLOAT)[0]


def _row(graph: Graph, values: Any) -> str:
    return graph.add_constant("row", np.array(values, np.float32))


def _scaler(graph: Graph, node: onnx.NodeProto, attrs: dict[str, Any], inlined: Inlined) -> bool:
    data = _single(node, inlined)
    (shifted,) = inlined.emit("Sub", data, _row(graph, attrs.get("offset", [0.0])))
    inlined.results = inlined.emit("Mul", shifted, _row(graph, attrs.get("scale", [1.0])))
    return True


def _normalizer(
    graph: Graph, node: onnx.NodeProto, attrs: dict[str, Any], inlined: Inlined
) -> bool:
    data = _single(node, inlined)
    (size,) = inlined.emit("Abs", data)
    op_type = {"MAX": "ReduceMax", "L1": "ReduceL1", "L2": "ReduceL2"}[attrs.get("norm", "MAX")]
    if graph.opset < _AXES_INPUT_SINCE:
        (whole,) = inlined.emit(op_type, size, axes=[1])
    else:
        (whole,) = inlined.emit(op_type, size, graph.add_constant("axes", np.array([1])))
    (bounded,) = inlined.emit("Max", whole, _row(graph, 1e-30))
    inlined.results = inlined.emit("Div", data, bounded)
    return True


def _binarizer(graph: Graph, node: onnx.NodeProto, attrs: dict[str, Any], inlined: Inlined) -> bool:
    above = inlined.emit(
        "Greater", _single(node, inlined), _row(graph, attrs.get("threshold", 0.0))
    )
    inlined.results = inlined.emit("Cast", *above, to=_FLOAT)
    return True


def _imputer(graph: Graph, node: onnx.NodeProto, attrs: dict[str, Any], inlined: Inlined) -> bool:
    if "imputed_value_floats" not in attrs:
        return False
    data, missing = _single(node, inlined), attrs.get("replaced_value_float", 0.0)
    if np.isnan(missing):
        (found,) = inlined.emit("IsNaN", data)
    else:
        (found,) = inlined.emit("Equal", data, _row(graph, missing))
    inlined.results = inlined.emit("Where", found, _row(graph, attrs["imputed_value_floats"]), data)
    return True


def _extractor(graph: Graph, node: onnx.NodeProto, _: dict[str, Any], inlined: Inlined) -> bool:
    data, places = node.input
    value = graph.constants.get(data)
    if value is not None and value.dtype == object:
        return False
    (flat,) = inlined.emit("Reshape", places, graph.add_constant("flat", np.array([-1])))
    axis = -1 if graph.opset >= 11 or value is None else value.ndim - 1
    inlined.results = inlined.emit("Gather", data, flat, axis=axis)
    if value is not None and value.ndim == 1:
        row = graph.add_constant("row", np.array([1, -1]))
        inlined.results = inlined.emit("Reshape", *inlined.results, row)
    return True


def _vectorizer(_: Graph, node: onnx.NodeProto, __: dict[str, Any], inlined: Inlined) -> bool:
    parts = [inlined.emit("Cast", name, to=_FLOAT)[0] for name in node.input]
    inlined.results = inlined.emit("Concat", *parts, axis=1)
    return True


def _linear(graph: Graph, node: onnx.NodeProto, attrs: dict[str, Any], inlined: Inlined) -> str:
    """Scores `[batch, rows]`, before what follows them."""
    coefficients = np.array(attrs["coefficients"], np.float32)
    intercepts = np.array(attrs.get("intercepts") or [0.0], np.float32)
    labels = attrs.get("classlabels_ints") or attrs.get("classlabels_strings") or [0]
    rows = attrs.get("targets") or (len(intercepts) if "intercepts" in attrs else len(labels))
    weights = graph.add_constant("coefficients", coefficients.reshape(rows, -1).T)
    (product,) = inlined.emit("MatMul", _single(node, inlined), weights)
    (scores,) = inlined.emit("Add", product, graph.add_constant("intercepts", intercepts))
    if rows == 1 and len(labels) == 2:
        scores = inlined.emit("Concat", *inlined.emit("Neg", scores), scores, axis=1)[0]
    return scores


_AFTER = {"NONE": "", "LOGISTIC": "Sigmoid", "SOFTMAX": "Softmax"}


def _after(attrs: dict[str, Any], inlined: Inlined, scores: str) -> str:
    op_type = _AFTER[attrs.get("post_transform", "NONE")]
    options = {"axis": 1} if op_type == "Softmax" else {}
    return inlined.emit(op_type, scores, **options)[0] if op_type else scores


def _regressor(graph: Graph, node: onnx.NodeProto, attrs: dict[str, Any], inlined: Inlined) -> bool:
    if attrs.get("post_transform", "NONE") not in _AFTER:
        return False
    inlined.results = [_after(attrs, inlined, _linear(graph, node, attrs, inlined))]
    return True


def _classifier(
    graph: Graph, node: onnx.NodeProto, attrs: dict[str, Any], inlined: Inlined
) -> bool:
    labels = attrs.get("classlabels_ints") or attrs.get("classlabels_strings") or []
    if attrs.get("post_transform", "NONE") not in _AFTER or len(labels) < 2:
        return False
    scores = _after(attrs, inlined, _linear(graph, node, attrs, inlined))
    label = ""
    if "classlabels_ints" in attrs:
        found = inlined.emit("ArgMax", scores, axis=1, keepdims=0)
        classes = graph.add_constant("classes", np.array(labels, np.int64))
        (label,) = inlined.emit("Gather", classes, *found)
    inlined.results = [label, scores]
    return True


_RULES: dict[str, Rule] = {
    "ArrayFeatureExtractor": _extractor,
    "Binarizer": _binarizer,
    "FeatureVectorizer": _vectorizer,
    "Imputer": _imputer,
    "LinearClassifier": _classifier,
    "LinearRegressor": _regressor,
    "Normalizer": _normalizer,
    "Scaler": _scaler,
}
