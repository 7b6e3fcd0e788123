"""Puts a loss that is an ONNX graph of its own after the model's outputs."""

import os
from collections.abc import Mapping, Sequence

import onnx
from onnx import numpy_helper, version_converter

from odtc.core.errors import ModelError
from odtc.core.specs import TensorSpec
from odtc.frontend.file.onnx_file import load_model
from odtc.frontend.graph import MAIN_DOMAINS, Graph, numpy_dtype, samples_of
from odtc.frontend.losses.given import LossGraph
from odtc.frontend.normalize.constants import fold_and_infer
from odtc.frontend.normalize.widen import OTHER_TYPES, widen_model

_PREFIX = "loss::"


def merge_loss(graph: Graph, loss: LossGraph) -> tuple[str, list[str]]:
    """Adds the nodes of the loss, and its other inputs as labels.

    Float tensors of the loss are constants: they are not trained.

    Returns:
        The tensor that is the loss, and the model's outputs that it reads.

    Raises:
        ModelError: the file is no ONNX graph, or does not fit the model.
    """
    path = os.fspath(loss.path)
    model = _of_opset(load_model(path), graph.opset, path)
    initializers = {tensor.name for tensor in model.graph.initializer}
    feeds = [value for value in model.graph.input if value.name not in initializers]
    if not feeds:
        raise ModelError("the loss has no input", where=path, hint="give it the logits")
    joined = {value.name: value.name for value in feeds if value.name in graph.outputs}
    joined = joined or {feeds[0].name: graph.outputs[0]}
    sizes: dict[str, int] = {}
    for value in feeds:
        if value.name in joined:
            _bind(value, joined[value.name], graph, sizes, path)
    # The model's outputs are float32, whatever they are in the file.
    types = {value.type.tensor_type.elem_type for value in feeds if value.name in joined}
    widen_model(model.graph, types & OTHER_TYPES)
    others = [value for value in feeds if value.name not in joined]
    _check_names(graph, others, path)
    graph.labels = tuple(_label(value, sizes, samples_of(graph), path) for value in others)
    rename = joined | {value.name: value.name for value in others} | {"": ""}
    for tensor in model.graph.initializer:
        graph.constants[_PREFIX + tensor.name] = numpy_helper.to_array(tensor)
    graph.nodes.extend(_renamed(node, rename) for node in model.graph.node)
    result = rename.get(model.graph.output[0].name, _PREFIX + model.graph.output[0].name)
    kept, graph.outputs = graph.outputs, [*graph.outputs, result]
    fold_and_infer(graph)
    graph.outputs = kept
    return result, [name for name in kept if name in joined.values()]


def _of_opset(model: onnx.ModelProto, opset: int, where: str) -> onnx.ModelProto:
    """The loss in the model's version of the operator set."""
    foreign = [node for node in model.graph.node if node.domain not in MAIN_DOMAINS]
    if foreign:
        raise ModelError(
            f"operator {foreign[0].op_type} is of the domain {foreign[0].domain!r}",
            where=where,
            hint="export the loss without custom operators",
        )
    own = next((item.version for item in model.opset_import if item.domain in MAIN_DOMAINS), 1)
    if own == opset:
        return model
    try:
        return version_converter.convert_version(model, opset)
    except (RuntimeError, onnx.checker.ValidationError) as error:
        raise ModelError(
            f"the loss is of opset {own}, the model of opset {opset}",
            where=where,
            hint=f"export the loss for opset {opset}",
        ) from error


def _bind(
    value: onnx.ValueInfoProto, output: str, graph: Graph, sizes: dict[str, int], where: str
) -> None:
    """Gives the symbols of a joined input the sizes of the output."""
    shape = graph.shapes.get(output)
    dims = value.type.tensor_type.shape.dim
    wanted = [dim.dim_value or dim.dim_param or "?" for dim in dims]
    fits = shape is not None and len(dims) == len(shape)
    for dim, size in zip(dims, shape or (), strict=False):
        known = dim.dim_value or sizes.setdefault(dim.dim_param, size)
        fits = fits and (known == size or not (dim.dim_value or dim.dim_param))
    if not fits:
        raise ModelError(
            f"the loss takes {value.name} of shape {wanted}; the model's output {output} has "
            f"{list(shape or ())}",
            where=where,
            hint="export the loss with these sizes, or with symbolic ones",
        )


def _check_names(graph: Graph, labels: Sequence[onnx.ValueInfoProto], where: str) -> None:
    """Checks that no label is called like a tensor of the model."""
    taken = {spec.name for spec in graph.inputs} | graph.parameters.keys() | graph.dtypes.keys()
    clash = next((value.name for value in labels if value.name in taken), None)
    if clash is not None:
        raise ModelError(
            f"the loss's input {clash!r} is called like another tensor of the model",
            where=where,
            hint="call a label otherwise; an output of the model is joined by its name",
        )


def _label(
    value: onnx.ValueInfoProto, sizes: Mapping[str, int], batch: int, where: str
) -> TensorSpec:
    """The spec of a label; a first dimension of no known size is the batch."""
    tensor = value.type.tensor_type
    shape = [dim.dim_value or sizes.get(dim.dim_param, 0) for dim in tensor.shape.dim]
    if shape and not shape[0]:
        shape[0] = batch
    if not all(shape):
        name = tensor.shape.dim[shape.index(0)].dim_param or "?"
        raise ModelError(
            f"dimension {name!r} of the loss's input {value.name} has no size",
            where=where,
            hint="give it a size, or the name of a dimension of an input that is an output",
        )
    return TensorSpec(value.name, tuple(shape), numpy_dtype(tensor.elem_type))


def _renamed(node: onnx.NodeProto, rename: Mapping[str, str]) -> onnx.NodeProto:
    """A copy whose tensors have the prefix, but for those of the model and the labels."""
    copy = onnx.NodeProto.FromString(node.SerializeToString())
    copy.name = _PREFIX + node.name
    for names in (copy.input, copy.output):
        for slot, name in enumerate(names):
            names[slot] = rename.get(name, _PREFIX + name)
    return copy
