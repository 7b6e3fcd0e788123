"""Puts a head for other classes on an ONNX model, with values as PyTorch initialises such a layer.

Where the classifier was found, its weight and bias get other sizes and values, and all else of the
file stays as it is. Where the caller names a tensor, the graph is cut there, and a pooling and a
dense layer are put after it.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from odtc.core.errors import ModelError, UnsupportedError, UsageError
from odtc.frontend.file.onnx_file import opset_of
from odtc.frontend.graph import describe_node
from odtc.frontend.heads.classifier import Classifier, find_classifier
from odtc.frontend.heads.shapes import follow_classes
from odtc.frontend.heads.tensors import Tensors, array_of, drop_unread, fresh_name, store

SCORES = "logits"
_WEIGHT, _BIAS = "head.weight", "head.bias"
_MAX_CLASSES = 1 << 20


@dataclass(frozen=True)
class Head:
    """The result of `replace_head`.

    Attributes:
        features: the tensor that the new head reads.
        scores: the tensor that it gives, in front of what closes the model.
        output: the model's only output now.
        width: features of a sample, or of a place of it.
        classes: how many scores it gives.
        weight: name of its weight.
        bias: name of its bias.
        said: what was done, a line each.
    """

    features: str
    scores: str
    output: str
    width: int
    classes: int
    weight: str
    bias: str
    said: tuple[str, ...]


def put_head(
    model: onnx.ModelProto,
    classes: int,
    *,
    output: str | None = None,
    at: str | None = None,
    seed: int = 0,
) -> Head:
    """Replaces a model's head, in place.

    The new weight W and bias b are drawn from U(-1/sqrt(n), 1/sqrt(n)), n the products of a score,
    as `torch.nn.Linear` and `torch.nn.Conv2d` do.

    Args:
        model: a checked ONNX model.
        classes: how many scores the new head gives.
        output: the output whose classifier is replaced; the first that has one by default.
        at: a tensor to cut at, `[batch, features]`, `[batch, places, features]` (their mean is
            taken) or `[batch, features, places...]` of an image (their mean is taken).
        seed: of the new values.

    Raises:
        UsageError: `classes` is out of its bounds, or there is no such output or tensor.
        UnsupportedError: no classifier was found, or the tensor's shape is not known.
    """
    if not 1 <= classes <= _MAX_CLASSES:
        raise UsageError(
            f"{classes} classes", where="classes", hint=f"give a number from 1 to {_MAX_CLASSES}"
        )
    if at is not None and output is not None:
        raise UsageError(
            "both an output and a tensor to cut at were given", hint="give one of them"
        )
    rng = np.random.default_rng(seed)
    if at is None:
        found = find_classifier(Tensors(model.graph), output)
        head = _resize(model, found, classes, rng)
    else:
        head = _cut(model, at, classes, rng)
    return head


def _uniform(rng: np.random.Generator, shape: Iterable[int], fan_in: int) -> np.ndarray:
    bound = 1 / math.sqrt(fan_in)
    return rng.uniform(-bound, bound, tuple(shape)).astype(np.float32)


def _resize(
    model: onnx.ModelProto, old: Classifier, classes: int, rng: np.random.Generator
) -> Head:
    """Other sizes and values for the layer that there is."""
    graph = model.graph
    tensors = Tensors(graph)
    said = [f"{old.weight}: {describe_node(old.node)}, {old.classes} classes, now {classes}"]
    weight = _own(tensors, old.node, 1, old.weight, said)
    before = array_of(tensors.stored[old.weight])
    shape = [classes if axis == old.class_axis else size for axis, size in enumerate(before.shape)]
    store(graph, weight, _uniform(rng, shape, old.fan_in).astype(before.dtype))
    if old.bias is None:
        bias = _add_bias(graph, old, weight, said)
    else:
        slot = 2 if old.bias_node is old.node else _slot_of(tensors, old.bias_node, old.bias)
        bias = _own(tensors, old.bias_node, slot, old.bias, said)
    ends_in_add = old.bias_node.op_type == "Add"
    wide = [classes, 1, 1] if old.node.op_type == "Conv" and ends_in_add else [classes]
    store(graph, bias, _uniform(rng, wide, old.fan_in).astype(before.dtype))
    scores = old.bias_node.output[0]
    follow_classes(graph, old, classes, opset_of(model), said)
    _keep_only(graph, old.output, said)
    features, width = old.node.input[0], old.fan_in
    return Head(features, scores, old.output, width, classes, weight, bias, tuple(said))


def _add_bias(graph: onnx.GraphProto, old: Classifier, weight: str, said: list[str]) -> str:
    """Lets a layer without a bias add one; exporters drop a bias of zeros."""
    stem = weight.removesuffix(".weight")
    bias = fresh_name(graph, f"{stem}.bias" if stem != weight else _BIAS)
    node = old.node
    if node.op_type == "MatMul":
        scores, product = node.output[0], fresh_name(graph, "head.product")
        node.output[0] = product
        added = helper.make_node("Add", [product, bias], [scores], fresh_name(graph, "head.add"))
        graph.node.insert(list(graph.node).index(node) + 1, added)
    else:
        del node.input[2:]
        node.input.append(bias)
    said.append(f"{bias}: the layer had no bias, and has one now")
    return bias


def _slot_of(tensors: Tensors, node: onnx.NodeProto, stored: str) -> int:
    sources = [tensors.source(name) for name in node.input]
    return next(slot for slot, found in enumerate(sources) if found and found[0] == stored)


def _own(tensors: Tensors, node: onnx.NodeProto, slot: int, stored: str, said: list[str]) -> str:
    """The name of a stored tensor that is this node's alone; another reader keeps the old one."""
    chain, name = [], node.input[slot]
    shared = tensors.is_shared(name)
    while name != stored:
        chain.append(tensors.makers[name])
        name = chain[-1].input[0]
        shared |= tensors.is_shared(name)
    if not shared:
        return stored
    own = fresh_name(tensors.graph, _WEIGHT if node.op_type != "Add" and slot == 1 else _BIAS)
    said.append(f"{stored} is read elsewhere, too: it stays there, and the head has {own}")
    reader, read = node, slot
    for number, view in enumerate(chain):
        copy = onnx.NodeProto()
        copy.CopyFrom(view)
        copy.output[0] = reader.input[read] = f"{own}.view{number}"
        position = list(tensors.graph.node).index(node)
        tensors.graph.node.insert(position, copy)
        reader, read = tensors.graph.node[position], 0
    reader.input[read] = own
    return own


def _keep_only(graph: onnx.GraphProto, output: str, said: list[str]) -> None:
    """Leaves one output, and what it needs."""
    others = [value for value in graph.output if value.name != output]
    for value in others:
        graph.output.remove(value)
    if others:
        said.append(f"outputs that went: {', '.join(value.name for value in others)}")
    drop_unread(graph)


def _cut(model: onnx.ModelProto, at: str, classes: int, rng: np.random.Generator) -> Head:
    """A pooling and a dense layer after a tensor, in place of all that followed it."""
    graph = model.graph
    value = _described(model, at)
    kind, dims = value.type.tensor_type.elem_type, value.type.tensor_type.shape.dim
    said = [f"cut at {at} [{', '.join(str(d.dim_value or d.dim_param or '?') for d in dims)}]"]
    said.append(f"outputs that went: {', '.join(each.name for each in graph.output)}")
    del graph.output[:]
    graph.output.append(value)
    drop_unread(graph)
    scores, weight, bias = (fresh_name(graph, name) for name in (SCORES, _WEIGHT, _BIAS))
    features, width = _pooled(model, at, dims, said)
    if width < 1:
        raise UnsupportedError(
            f"how many features {at!r} has is not known before the run",
            where=f"tensor {at}",
            hint="export the model with a fixed width there, or cut at another tensor",
        )
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    store(graph, weight, _uniform(rng, (classes, width), width).astype(dtype))
    store(graph, bias, _uniform(rng, (classes,), width).astype(dtype))
    graph.node.append(
        helper.make_node("Gemm", [features, weight, bias], [scores], "head", transB=1)
    )
    said.append(f"{weight}: a dense layer from {width} features to {classes} classes")
    del graph.output[:]
    batch = dims[0].dim_value if dims[0].HasField("dim_value") else dims[0].dim_param or None
    graph.output.append(helper.make_tensor_value_info(scores, kind, [batch, classes]))
    return Head(features, scores, scores, width, classes, weight, bias, tuple(said))


def _described(model: onnx.ModelProto, name: str) -> onnx.ValueInfoProto:
    """Type and shape of a tensor of the graph."""
    tensors = Tensors(model.graph)
    if name not in tensors.makers or name in tensors.stored:
        known = [node.output[0] for node in model.graph.node if node.op_type != "Constant"]
        raise UsageError(
            f"the model computes no tensor {name!r}",
            where="at",
            hint=f"the last that it computes are {', '.join(known[-6:])}",
        )
    try:
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    except (onnx.shape_inference.InferenceError, ValueError) as error:
        raise ModelError(f"the model's shapes cannot be inferred: {error}") from error
    for value in (*inferred.value_info, *inferred.output):
        if value.name == name and value.type.tensor_type.HasField("shape"):
            if value.type.tensor_type.elem_type in _FLOATS:
                return value
            raise UsageError(f"{name!r} holds no floats: a head reads features", where="at")
    raise UnsupportedError(
        f"the shape of {name!r} is not known before the run",
        where=f"tensor {name}",
        hint="cut at another tensor",
    )


_FLOATS = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE)


def _pooled(
    model: onnx.ModelProto,
    at: str,
    dims: Iterable[onnx.TensorShapeProto.Dimension],
    said: list[str],
) -> tuple[str, int]:
    """The features of a sample as a row, and how many there are."""
    graph, sizes = model.graph, [dim.dim_value for dim in dims]
    row, held = fresh_name(graph, "head.features"), fresh_name(graph, "head.axes")
    if len(sizes) == 2:
        return at, sizes[1]
    if len(sizes) < 2:
        raise UsageError(
            f"{at!r} has rank {len(sizes)}; a head reads [batch, features] or more", where="at"
        )
    axes = [1] if len(sizes) == 3 else list(range(2, len(sizes)))
    width = sizes[2] if len(sizes) == 3 else sizes[1]
    said.append(f"the mean over {'places' if len(sizes) == 3 else 'the image'} is taken")
    if opset_of(model) < 18:
        mean = helper.make_node("ReduceMean", [at], [row], axes=axes, keepdims=0)
    else:
        store(graph, held, np.array(axes, np.int64))
        mean = helper.make_node("ReduceMean", [at, held], [row], keepdims=0)
    graph.node.append(mean)
    return row, width
