"""Edits of ONNX models that peers need, and the names of a model's parameters."""

from collections.abc import Mapping
from typing import Any

import onnx
from onnx import TensorProto, helper, numpy_helper


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


def specialized(
    model: onnx.ModelProto, batch: int, shape: Mapping[str, int] | None = None
) -> onnx.ModelProto:
    """A copy of static shape, with its weights inside, that ends in logits [batch, classes].

    Args:
        model: of any batch.
        batch: samples in a step.
        shape: sizes of its other symbolic dimensions.
    """
    from odtc.frontend.file.specialize import specialize

    graph = specialize(model, batch, shape)
    static = graph.to_model()
    fed = [value for value in static.graph.input if value.name not in graph.parameters]
    replace_entries(static.graph.input, fed)
    static.graph.initializer.extend(
        numpy_helper.from_array(value, name) for name, value in graph.parameters.items()
    )
    end_in_logits(static.graph)
    return static


def default_parameters(model: onnx.ModelProto) -> frozenset[str]:
    """Names of the tensors that odtc trains by default: a peer trains the same."""
    from odtc.frontend.file.onnx_file import modern
    from odtc.frontend.file.specialize import read_graph
    from odtc.frontend.trained.selection import select

    return frozenset(select(read_graph(modern(model))).trained)


def replace_entries(repeated: Any, entries: list[Any]) -> None:
    """Sets the contents of a repeated protobuf field."""
    del repeated[:]
    repeated.extend(entries)


def end_in_logits(graph: onnx.GraphProto, axis: int = 1) -> None:
    """Leaves out a closing softmax, and flattens logits such as [batch, classes, 1, 1].

    Args:
        graph: its first output are the logits.
        axis: of the classes; those before it become one.
    """
    output = graph.output[0].name
    last = next(node for node in graph.node if output in node.output)
    if last.op_type in ("Softmax", "LogSoftmax"):
        graph.node.remove(last)
        output = last.input[0]
    graph.node.append(helper.make_node("Flatten", [output], ["trained_logits"], axis=axis))
    replace_entries(
        graph.output, [helper.make_tensor_value_info("trained_logits", TensorProto.FLOAT, None)]
    )
    del graph.value_info[:]
