"""How the layers of each ONNX operator are adapted: shapes and names of A and B, and the nodes.

Names are those of Hugging Face PEFT, after the weight's own without its `.weight`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper

from odtc.core.adapters import Adapter
from odtc.frontend.graph import Graph, attributes
from odtc.frontend.trained.dora import bias_nodes, scale_of, without_bias
from odtc.frontend.trained.layers import Layer

Shape = tuple[int, ...]
# Of dropout, since this opset; before, it is an attribute.
_RATIO_INPUT_SINCE = 12


@dataclass(frozen=True)
class AdapterForm:
    """How the weights of an operator are adapted.

    Attributes:
        slot: the input of the node that the weight is.
        condition: why a node cannot be adapted, by its attributes and the weight's rank; or "".
        shapes: of A and B, from the weight's shape, output channels first, and the rank.
        suffixes: of the names of A and B.
        operators: that apply A and B.
        zero_first: whether A is zero at first, and not B.
    """

    slot: int
    condition: Callable[[dict[str, Any], int], str]
    shapes: Callable[[Shape, int], tuple[Shape, Shape]]
    suffixes: tuple[str, str]
    operators: tuple[str, str]
    zero_first: bool = False


def _matrix(attrs: dict[str, Any], rank: int) -> str:
    if rank != 2:
        return f"the weight must be a matrix; its rank is {rank}"
    return "it reads its input transposed" if attrs.get("transA") else ""


def _ungrouped(attrs: dict[str, Any], _: int) -> str:
    groups = attrs.get("group", 1)
    return f"it has {groups} groups; only 1 is supported" if groups != 1 else ""


def _rows(attrs: dict[str, Any], rank: int) -> str:
    if rank != 2:
        return f"the weight must be a matrix; its rank is {rank}"
    return "it gathers along another axis than 0" if attrs.get("axis", 0) else ""


def _matrix_shapes(weight: Shape, rank: int) -> tuple[Shape, Shape]:
    return (weight[1], rank), (rank, weight[0])


def _conv_shapes(weight: Shape, rank: int) -> tuple[Shape, Shape]:
    return (rank, *weight[1:]), (weight[0], rank, *(1 for _ in weight[2:]))


_NAMES = (".lora_A.weight", ".lora_B.weight")
_EMBEDDING_NAMES = (".lora_embedding_A", ".lora_embedding_B")
_PRODUCT = AdapterForm(1, _matrix, _matrix_shapes, _NAMES, ("MatMul", "MatMul"))

FORMS: dict[str, AdapterForm] = {
    "Conv": AdapterForm(1, _ungrouped, _conv_shapes, _NAMES, ("Conv", "Conv")),
    "Gather": AdapterForm(0, _rows, _matrix_shapes, _EMBEDDING_NAMES, ("Gather", "MatMul"), True),
    "Gemm": _PRODUCT,
    "MatMul": _PRODUCT,
}


def refusal(layer: Layer, rank: int) -> str:
    """Why a layer whose weight has that rank cannot be adapted; empty where it can."""
    form = FORMS.get(layer.op_type)
    if form is None:
        return f"only weights of {', '.join(FORMS)} are adapted"
    if layer.slot != form.slot or (layer.op_type == "Gather" and layer.transposed):
        return "the weight must be the right operand, or what an embedding gathers from"
    return form.condition(attributes(layer.node), rank)


def adapted_nodes(graph: Graph, layer: Layer, adapter: Adapter) -> Iterator[onnx.NodeProto]:
    """The layer's node, then those of its adapter; the last one has the old result's name.

    The magnitude, where there is one, scales what is the layer's without its bias.
    """
    node, attrs, result = layer.node, attributes(layer.node), layer.node.output[0]
    apply_down, apply_up = FORMS[layer.op_type].operators

    def emit(op_type: str, inputs: list[str], suffix: str, **options: Any) -> onnx.NodeProto:
        name = f"{node.name or result}::{suffix}"
        return helper.make_node(op_type, inputs, [f"{result}::{suffix}"], name, **options)

    # A Gemm's alpha scales its product, and so the adapter's.
    factor = graph.add_constant("scale", np.float32(adapter.scale * attrs.get("alpha", 1.0)))  # type: ignore[operator]
    is_gather, is_conv = layer.op_type == "Gather", layer.op_type == "Conv"
    source = f"{result}::dropped" if adapter.dropout else node.input[0]
    data = [adapter.down, node.input[1]] if is_gather else [source, adapter.down]
    node.output[0] = f"{result}::base"
    bias = without_bias(graph, layer) if adapter.magnitude else ""
    yield node
    if adapter.dropout and graph.opset < _RATIO_INPUT_SINCE:
        yield emit("Dropout", [node.input[0]], "dropped", ratio=adapter.dropout)
    elif adapter.dropout:
        ratio = graph.add_constant("ratio", np.float32(adapter.dropout))
        yield emit("Dropout", [node.input[0], ratio], "dropped")
    yield emit(apply_down, data, "lora_A", **(attrs if is_conv else {}))
    yield emit("Mul", [f"{result}::lora_A", factor], "scaled")
    yield emit(apply_up, [f"{result}::scaled", adapter.up], "lora_B")
    added = [emit("Add", [f"{result}::base", f"{result}::lora_B"], "adapted")]
    if adapter.magnitude:
        added.append(emit("Mul", [f"{result}::adapted", scale_of(adapter)], "whole"))
    if bias:
        added.extend(bias_nodes(graph, layer, bias, result))
    added[-1].output[0] = result
    yield from added
