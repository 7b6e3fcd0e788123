"""Inlines the bodies of If, Loop and Scan where what they do is known when the model is compiled.

An If whose condition is constant becomes its branch; a Loop of a constant number of trips, and a
Scan, become their bodies one after the other. Their weights are in the graph already
(`frontend/file/lift.py`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from odtc.frontend.graph import Graph, attributes, only
from odtc.frontend.normalize.control.trips import trips_of
from odtc.frontend.normalize.control.unrolled import count_unrolled

UNSQUEEZE_INPUT_SINCE = 13
SPLIT_INPUT_SINCE = 13


@dataclass
class Inlined:
    """The nodes that replace a node.

    Attributes:
        graph: the graph that takes it in.
        stem: prefix of the new names.
        nodes: in order.
        results: names that stand for the node's outputs.
    """

    graph: Graph
    stem: str
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    results: list[str] = field(default_factory=list)

    def emit(self, op_type: str, *inputs: str, outputs: int = 1, **attrs: Any) -> list[str]:
        """Adds a node and returns the names of its outputs."""
        names = [f"{self.stem}::{op_type}{len(self.nodes)}.{slot}" for slot in range(outputs)]
        self.nodes.append(helper.make_node(op_type, inputs, names, self.stem, **attrs))
        return names

    def unsqueeze(self, name: str, axis: int) -> str:
        """Emits an Unsqueeze of one axis."""
        return self._with_axis("Unsqueeze", name, axis)

    def squeeze(self, name: str, axis: int) -> str:
        """Emits a Squeeze of one axis."""
        return self._with_axis("Squeeze", name, axis)

    def split(self, name: str, axis: int, sizes: Sequence[int]) -> list[str]:
        """Emits a Split into parts of these sizes."""
        if self.graph.opset < SPLIT_INPUT_SINCE:
            return self.emit("Split", name, outputs=len(sizes), axis=axis, split=list(sizes))
        given = self.graph.add_constant("split", np.array(sizes, np.int64))
        return self.emit("Split", name, given, outputs=len(sizes), axis=axis)

    def _with_axis(self, op_type: str, name: str, axis: int) -> str:
        if self.graph.opset < UNSQUEEZE_INPUT_SINCE:
            return self.emit(op_type, name, axes=[axis])[0]
        return self.emit(op_type, name, self.graph.add_constant("axes", np.array([axis])))[0]

    def adopt(self, body: onnx.GraphProto) -> dict[str, str]:
        """Takes in the initializers of a body, none of floats; returns their new names."""
        names = {}
        for tensor in body.initializer:
            taken = self.graph.parameters.keys() | self.graph.constants.keys()
            name = f"{self.stem}::{tensor.name}" if tensor.name in taken else tensor.name
            self.graph.constants[name] = numpy_helper.to_array(tensor)
            names[tensor.name] = name
        return names

    def body(self, body: onnx.GraphProto, names: Mapping[str, str], step: str = "") -> list[str]:
        """Takes in the nodes of a body, its inputs and initializers known by `names`."""
        prefix = f"{self.stem}::{step}"
        known = dict(names)
        known |= {name: prefix + name for node in body.node for name in node.output if name}
        for node in body.node:
            renamed = rename(node, known)
            renamed.name = f"{self.stem}/{node.name}" if node.name else ""
            self.nodes.append(renamed)
        return [known.get(value.name, value.name) for value in body.output]


def rename(node: onnx.NodeProto, names: Mapping[str, str]) -> onnx.NodeProto:
    """A copy of a node that reads and writes by other names, in its own bodies too."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    for field_ in (copy.input, copy.output):
        for slot, name in enumerate(field_):
            field_[slot] = names.get(name, name)
    for attribute in copy.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            _rename_captured(attribute.g, names)
    return copy


def _rename_captured(body: onnx.GraphProto, names: Mapping[str, str]) -> None:
    own = {value.name for value in (*body.input, *body.initializer)}
    own |= {name for node in body.node for name in node.output}
    outer = {old: new for old, new in names.items() if old not in own}
    nodes = [rename(node, outer) for node in body.node]
    del body.node[:]
    body.node.extend(nodes)
    for value in body.output:
        value.name = outer.get(value.name, value.name)


def inline_if(graph: Graph, node: onnx.NodeProto, inlined: Inlined) -> bool:
    """Takes the branch of a constant condition."""
    condition = only(graph, node, 0)
    if condition is None:
        return False
    branch = attributes(node)["then_branch" if condition else "else_branch"]
    inlined.results = inlined.body(branch, inlined.adopt(branch))
    return True


def inline_loop(graph: Graph, node: onnx.NodeProto, inlined: Inlined) -> bool:
    """The body, once for each trip; what each trip gives out is stacked."""
    trips = trips_of(graph, node)
    if isinstance(trips, str):
        return False
    body = attributes(node)["body"]
    count_unrolled(graph, node, body, trips)
    weights = inlined.adopt(body)
    true = graph.add_constant("condition", np.array(True))
    state, given = list(node.input[2:]), []
    formal = [value.name for value in body.input]
    for trip in range(trips):
        counter = graph.add_constant("trip", np.array(trip))
        actual = dict(zip(formal, [counter, true, *state], strict=True))
        _, *outputs = inlined.body(body, actual | weights, f"{trip}::")
        state, extra = outputs[: len(state)], outputs[len(state) :]
        given.append(extra)
    inlined.results = state + [_stack(inlined, parts, 0) for parts in zip(*given, strict=True)]
    return True


def _stack(inlined: Inlined, parts: Iterable[str], axis: int) -> str:
    return inlined.emit("Concat", *(inlined.unsqueeze(p, axis) for p in parts), axis=axis)[0]


def inline_scan(graph: Graph, node: onnx.NodeProto, inlined: Inlined) -> bool:
    """The body, once for each step along the axis of the inputs that it scans."""
    attrs = attributes(node)
    body, count = attrs["body"], attrs["num_scan_inputs"]
    if graph.opset < 9 or any(name not in graph.shapes for name in node.input[-count:]):
        return False
    state, scanned = list(node.input[:-count]), node.input[-count:]
    axes = attrs.get("scan_input_axes", [0] * count)
    trips = max(graph.shapes[name][axis] for name, axis in zip(scanned, axes, strict=True))
    count_unrolled(graph, node, body, trips, count + len(body.output) - len(state))
    pieces = [
        _pieces(inlined, name, axis, bool(backwards))
        for name, axis, backwards in zip(
            scanned,
            axes,
            attrs.get("scan_input_directions", [0] * count),
            strict=True,
        )
    ]
    weights = inlined.adopt(body)
    formal, given = [value.name for value in body.input], []
    for trip, parts in enumerate(zip(*pieces, strict=True)):
        actual = dict(zip(formal, [*state, *parts], strict=True))
        outputs = inlined.body(body, actual | weights, f"{trip}::")
        state, extra = outputs[: len(state)], outputs[len(state) :]
        given.append(extra)
    stacks = list(zip(*given, strict=True))
    axes = attrs.get("scan_output_axes", [0] * len(stacks))
    directions = attrs.get("scan_output_directions", [0] * len(stacks))
    inlined.results = state + [
        _stack(inlined, parts[::-1] if backwards else parts, axis)
        for parts, axis, backwards in zip(stacks, axes, directions, strict=True)
    ]
    return True


def _pieces(inlined: Inlined, name: str, axis: int, backwards: bool) -> list[str]:
    steps = inlined.graph.shapes[name][axis]
    parts = [name] if steps == 1 else inlined.split(name, axis, [1] * steps)
    parts = [inlined.squeeze(part, axis) for part in parts]
    return parts[::-1] if backwards else parts
