"""One table of node rewrites: operator type to a function that returns the nodes in its place.

TVM's importer brings some operators in a form that copies, has no gradient, or has a wrong one.
Each rule here replaces such a node by operators that import cleanly and whose gradients are right.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import helper

from odtc.frontend.graph import Graph, attributes, describe_node

Rule = Callable[[Graph, onnx.NodeProto, dict[str, Any]], list[onnx.NodeProto] | None]


def expand_nodes(graph: Graph) -> None:
    """Applies the rule of each node's type; a rule that returns None leaves the node as it is."""
    nodes: list[onnx.NodeProto] = []
    for node in graph.nodes:
        rule = RULES.get(node.op_type)
        replacement = rule(graph, node, attributes(node)) if rule else None
        nodes.extend([node] if replacement is None else replacement)
    graph.nodes = nodes


def _node(op_type: str, inputs: list[str], output: str, like: onnx.NodeProto, **attrs: Any):
    """A node that carries on the name of the one that it stands for."""
    return helper.make_node(op_type, inputs, [output], name=like.name, **attrs)


def _sum(graph: Graph, node: onnx.NodeProto, _: dict[str, Any]) -> list[onnx.NodeProto]:
    """Sum of n becomes n - 1 Adds: the importer would stack copies of the inputs."""
    if len(node.input) == 1:
        return [_node("Identity", [node.input[0]], node.output[0], node)]
    nodes, partial = [], node.input[0]
    for index, term in enumerate(node.input[1:], 2):
        out = node.output[0] if index == len(node.input) else f"{node.output[0]}::sum{index}"
        nodes.append(_node("Add", [partial, term], out, node))
        partial = out
    return nodes


def _dropout(graph: Graph, node: onnx.NodeProto, attrs: dict[str, Any]) -> list[onnx.NodeProto]:
    graph.notes.append(
        f"{describe_node(node)}: dropout is not applied; this version trains without"
    )
    return [_node("Identity", [node.input[0]], node.output[0], node)]


def _to_reshape(graph: Graph, node: onnx.NodeProto, _: dict[str, Any]) -> list | None:
    """Flatten, Squeeze, Unsqueeze and computed reshapes become one Reshape to a static shape."""
    shape = graph.shapes.get(node.output[0])
    if shape is None:
        return None
    target = graph.add_constant("shape", np.array(shape, np.int64))
    return [_node("Reshape", [node.input[0], target], node.output[0], node)]


def _gemm(graph: Graph, node: onnx.NodeProto, attrs: dict[str, Any]) -> list[onnx.NodeProto]:
    """Alpha * A' * B' + beta * C, spelled out; the transposes are absorbed by a pass later on."""
    nodes: list[onnx.NodeProto] = []
    out = node.output[0]

    def emit(op_type: str, inputs: list[str], suffix: str, **attributes_: Any) -> str:
        nodes.append(_node(op_type, inputs, f"{out}::{suffix}", node, **attributes_))
        return f"{out}::{suffix}"

    def scaled(name: str, factor: float, suffix: str) -> str:
        if factor == 1.0:
            return name
        return emit("Mul", [name, graph.add_constant(suffix, np.float32(factor))], suffix)

    left, right = (
        emit("Transpose", [name], f"{attr}", perm=[1, 0]) if attrs.get(attr) else name
        for name, attr in zip(node.input, ("transA", "transB"), strict=False)
    )
    product = scaled(emit("MatMul", [left, right], "product"), attrs.get("alpha", 1.0), "alpha")
    if len(node.input) > 2 and node.input[2]:
        product = emit("Add", [product, scaled(node.input[2], attrs.get("beta", 1.0), "beta")], "c")
    nodes[-1].output[0] = out
    return nodes


def _lrn(graph: Graph, node: onnx.NodeProto, attrs: dict[str, Any]) -> list[onnx.NodeProto]:
    """X / (bias + alpha/size * window sum of x²)^beta.

    The sum over a window of channels is a 1×1 convolution with a constant band matrix: it has a
    right gradient, where the pooling that the importer makes of it has none.
    """
    data, out = node.input[0], node.output[0]
    channels, size = graph.shapes[data][1], attrs["size"]
    offset = np.arange(channels)[None, :] - np.arange(channels)[:, None]
    band = (offset >= -((size - 1) // 2)) & (offset <= size // 2)
    weight = (band * (attrs.get("alpha", 1e-4) / size)).astype(np.float32)
    kernel = graph.add_constant("lrn", weight[:, :, None, None])
    bias = graph.add_constant("lrn_bias", np.float32(attrs.get("bias", 1.0)))
    exponent = graph.add_constant("lrn_beta", np.float32(attrs.get("beta", 0.75)))
    steps = [("Mul", [data, data], "square"), ("Conv", [f"{out}::square", kernel], "window")]
    steps += [("Add", [f"{out}::window", bias], "base")]
    steps += [("Pow", [f"{out}::base", exponent], "scale")]
    nodes = [_node(op, inputs, f"{out}::{suffix}", node) for op, inputs, suffix in steps]
    return [*nodes, _node("Div", [data, f"{out}::scale"], out, node)]


def _global_average(graph: Graph, node: onnx.NodeProto, _: dict[str, Any]) -> list[onnx.NodeProto]:
    axes = list(range(2, len(graph.shapes[node.input[0]])))
    if graph.opset < 18:
        return [_node("ReduceMean", [node.input[0]], node.output[0], node, axes=axes, keepdims=1)]
    constant = graph.add_constant("axes", np.array(axes, np.int64))
    return [_node("ReduceMean", [node.input[0], constant], node.output[0], node, keepdims=1)]


def _batch_norm(graph: Graph, node: onnx.NodeProto, attrs: dict[str, Any]) -> list[onnx.NodeProto]:
    """ONNX keeps `momentum` of the old statistics, Relax takes `momentum` of the new ones."""
    return [
        _node(
            "BatchNormalization",
            list(node.input),
            node.output[0],
            node,
            epsilon=attrs.get("epsilon", 1e-5),
            momentum=1.0 - attrs.get("momentum", 0.9),
        )
    ]


def _explicit_pads(graph: Graph, node: onnx.NodeProto, attrs: dict[str, Any]) -> list | None:
    """SAME and VALID padding become numbers: the importer would insert a Pad without gradient."""
    mode = attrs.get("auto_pad", "NOTSET")
    if mode == "NOTSET":
        return None
    data = graph.shapes[node.input[0]][2:]
    kernel = attrs.get("kernel_shape") or graph.shapes[node.input[1]][2:]
    strides = attrs.get("strides") or [1] * len(data)
    dilations = attrs.get("dilations") or [1] * len(data)
    total = [
        max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0) if mode.startswith("SAME") else 0
        for n, k, s, d in zip(data, kernel, strides, dilations, strict=True)
    ]
    small, large = [t // 2 for t in total], [t - t // 2 for t in total]
    pads = large + small if mode == "SAME_LOWER" else small + large
    kept = {k: v for k, v in attrs.items() if k not in ("auto_pad", "pads")}
    return [helper.make_node(node.op_type, node.input, node.output, node.name, pads=pads, **kept)]


RULES: dict[str, Rule] = {
    "AveragePool": _explicit_pads,
    "BatchNormalization": _batch_norm,
    "Conv": _explicit_pads,
    "Dropout": _dropout,
    "Flatten": _to_reshape,
    "Gemm": _gemm,
    "GlobalAveragePool": _global_average,
    "LRN": _lrn,
    "MaxPool": _explicit_pads,
    "Reshape": _to_reshape,
    "Squeeze": _to_reshape,
    "Sum": _sum,
    "Unsqueeze": _to_reshape,
}
