"""Magnitudes of adapted weights (DoRA): the nodes that scale a layer's output channels.

    Liu et al., "DoRA: Weight-Decomposed Low-Rank Adaptation", 2024

A layer computes as if it had the weight m * (W + s A B) / |W + s A B|, with a magnitude m and a
norm for each output channel. The norm changes with A and B, but counts as a constant of the
gradient (section 4.3). W + s A B is never there as a whole: its squared norm is

    |W|² + 2 s (AᵀW · B) + s² (AᵀA B · B)        sums over the terms, then over the rank

with AᵀW a product of as many rows as the rank.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from odtc.core.adapters import Adapter
from odtc.core.errors import UnsupportedError
from odtc.frontend.graph import Graph, attributes
from odtc.frontend.trained.layers import Layer, reads_transposed

# Of a reduction, since this opset its axes are an input; before, an attribute.
_AXES_INPUT_SINCE = 13
# Before this opset a Gemm has a bias in any case.
_FREE_BIAS_SINCE = 11
_MATRIX = 2


def scale_of(adapter: Adapter) -> str:
    """Name of the tensor that a layer's output channels are multiplied by."""
    return f"{adapter.magnitude}::scale"


def scale_nodes(graph: Graph, layer: Layer, adapter: Adapter) -> Iterator[onnx.NodeProto]:
    """The nodes that compute `scale_of(adapter)`, of the shape of the magnitude.

    The norm among them is a constant of the gradient: `graph.detached`.
    """
    emit = _Emitter(graph, adapter.magnitude)
    weight, is_turned = _stored(graph, layer)
    down, up = adapter.down, adapter.up
    if graph.parameters[down].ndim > _MATRIX:
        flat = graph.add_constant("flat", np.array([0, -1]))
        weight, down, up = (emit("Reshape", [each, flat]) for each in (weight, down, up))
        # [out, terms], [rank, terms], [out, rank].
        is_turned, turned, up = True, down, emit("Transpose", [up], perm=[1, 0])
        down = emit("Transpose", [turned], perm=[1, 0])
    else:
        turned = emit("Transpose", [down], perm=[1, 0])
    scale = np.float32(adapter.scale)
    terms = emit("Transpose", [weight], perm=[1, 0]) if is_turned else weight
    inner = emit.summed(emit("Mul", [emit("MatMul", [turned, terms]), up]), 0)
    gram = emit("MatMul", [turned, down])
    square = emit.summed(emit("Mul", [emit("MatMul", [gram, up]), up]), 0)
    whole = emit.summed(emit("Mul", [weight, weight]), 1 if is_turned else 0)
    twice = graph.add_constant("scale", 2 * scale)
    total = emit("Add", [whole, emit("Mul", [inner, twice])])
    squared = graph.add_constant("scale", scale * scale)
    norm = emit("Sqrt", [emit("Add", [total, emit("Mul", [square, squared])])])
    graph.detached.add(norm)
    shape = graph.parameters[adapter.magnitude].shape
    if len(shape) > 1:
        norm = emit("Reshape", [norm, graph.add_constant("shape", np.array(shape))])
    yield from emit.nodes
    yield helper.make_node("Div", [adapter.magnitude, norm], [scale_of(adapter)], scale_of(adapter))


def without_bias(graph: Graph, layer: Layer) -> str:
    """Takes the bias out of a layer's own node; returns its name, or nothing.

    It is not scaled, so it is added after the scale.
    """
    node = layer.node
    bias = node.input[2] if len(node.input) > 2 else ""
    del node.input[2:]
    if layer.op_type == "Gemm" and graph.opset < _FREE_BIAS_SINCE:
        node.input.append(graph.add_constant("zero", np.zeros(1, np.float32)))
    return bias


def bias_nodes(graph: Graph, layer: Layer, bias: str, result: str) -> Iterator[onnx.NodeProto]:
    """Nodes that add a bias to `result::whole`, as a layer's own node did; they give `result`."""
    beta, added = attributes(layer.node).get("beta", 1.0), bias
    if layer.op_type == "Gemm" and beta != 1.0:
        factor = graph.add_constant("beta", np.float32(beta))  # type: ignore[arg-type]
        added = f"{result}::bias"
        yield helper.make_node("Mul", [bias, factor], [added], added)
    if layer.op_type == "Conv":
        rank = len(graph.shapes[result])
        shape = graph.add_constant("shape", np.array([1, -1, *(1 for _ in range(rank - 2))]))
        added = f"{result}::bias"
        yield helper.make_node("Reshape", [bias, shape], [added], added)
    yield helper.make_node("Add", [f"{result}::whole", added], [result], f"{result}::biased")


def norms_of(weight: np.ndarray, *, transposed: bool) -> np.ndarray:
    """The norm of each output channel, in the shape of PEFT's magnitudes; float32.

    Args:
        weight: a matrix, or of a convolution, whose output channels are first.
        transposed: whether a matrix has these first, too.
    """
    values = np.asarray(weight, np.float32)
    is_first = transposed or values.ndim > _MATRIX
    rows = values.reshape(len(values), -1)
    # In float64, which einsum does part by part.
    squares = np.einsum("io,io->i" if is_first else "io,io->o", rows, rows, dtype=np.float64)
    norms = np.sqrt(squares).astype(np.float32)
    return norms.reshape(1, -1, *(1 for _ in values.shape[2:])) if values.ndim > _MATRIX else norms


def set_magnitudes(graph: Graph, adapters: Sequence[Adapter]) -> None:
    """Lets magnitudes of weights that are kept as codes begin at the norms of what these mean.

    Args:
        graph: normalised, with its codes.
        adapters: that were added.

    Raises:
        UnsupportedError: integers of the file are dequantised by nodes of their own, or an output
            channel is zero.
    """
    for adapter in adapters:
        if not adapter.magnitude:
            continue
        if adapter.weight in graph.coded:
            floats = graph.coded[adapter.weight].floats(graph.parameters)
            norms = norms_of(floats, transposed=adapter.transposed)
            graph.parameters[adapter.magnitude] = norms
        elif adapter.weight not in graph.parameters:
            raise _refused(
                adapter, "the file has it as integers, which are no weights of their own here"
            )
        norms = graph.parameters[adapter.magnitude]
        if zeros := int(norms.size - np.count_nonzero(norms)):
            raise _refused(
                adapter, f"{zeros} of its {norms.size} output channels are zero, without direction"
            )


def _refused(adapter: Adapter, why: str) -> UnsupportedError:
    return UnsupportedError(
        f"LoRA: no magnitudes (dora) for {adapter.weight!r}: {why}",
        hint="narrow the targets, or leave out dora",
    )


def _stored(graph: Graph, layer: Layer) -> tuple[str, bool]:
    """The float tensor that a layer's weight is read from, and whether it is read transposed."""
    makers = {name: node for node in graph.nodes for name in node.output}
    name, is_turned = layer.node.input[layer.slot], reads_transposed(layer.node, layer.slot)
    while name in makers and makers[name].op_type == "Transpose":
        name, is_turned = makers[name].input[0], not is_turned
    return name, is_turned


class _Emitter:
    """Makes nodes of one result, each under a name of its own."""

    def __init__(self, graph: Graph, stem: str) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self._graph, self._stem = graph, stem

    def __call__(self, op_type: str, inputs: list[str], **options: Any) -> str:
        """Adds a node and returns the name of its result."""
        name = f"{self._stem}::{op_type}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], name, **options))
        return name

    def summed(self, name: str, axis: int) -> str:
        """Adds the sum along an axis, which goes."""
        if self._graph.opset < _AXES_INPUT_SINCE:
            return self("ReduceSum", [name], axes=[axis], keepdims=0)
        axes = self._graph.add_constant("axes", np.array([axis]))
        return self("ReduceSum", [name, axes], keepdims=0)
