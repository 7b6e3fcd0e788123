"""Computes in float32 what a file computes in float16, bfloat16 or float64.

A step of training adds small numbers to weights: float16 would round them away, and no phone's GPU
has float64. So weights get float32 masters, inputs are taken as float32, and so is all that is
computed from them; `odtc/core/onnx_model/weights.py` writes weights back in the file's own type.

Float64 that comes of integers alone, such as the arithmetic of sizes and positions, keeps its type
up to where it meets the others: rounded otherwise, it could give another integer. Call this when
constants are folded, in their own types, and bodies are inlined.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from odtc.core.errors import UnsupportedError
from odtc.core.onnx_model.weight_places import FLOATS, bodies_of
from odtc.frontend.graph import Graph, names_read

_WIDE = "float32"
_HALVES = frozenset({"float16", "bfloat16"})
_OTHERS = _HALVES | {"float64"}
OTHER_TYPES = FLOATS - {TensorProto.FLOAT}
# Attributes that name an element type.
_TYPES = frozenset({"to", "dtype", "output_dtype", "output_datatype", "stash_type"})
_LARGEST = float(np.finfo(np.float32).max)


def widen_bfloat16(graph: Graph) -> bool:
    """Puts float32 in the place of all bfloat16, in place; tells if there was any.

    Most operators have no bfloat16 in the standard, though PyTorch exports it: no shapes could be
    inferred. So this comes before all else, and no dtype but those of outputs is known yet.

    Raises:
        UnsupportedError: a weight has elements beyond float32.
    """
    weights = _masters(graph, frozenset({"bfloat16"}))
    constants = [n for n, value in graph.constants.items() if value.dtype.name == "bfloat16"]
    for name in constants:
        graph.constants[name] = graph.constants[name].astype(np.float32)
    inputs = _take_inputs(graph, frozenset({"bfloat16"}))
    outputs = [name for name, dtype in graph.dtypes.items() if dtype == "bfloat16"]
    graph.dtypes |= dict.fromkeys(outputs, _WIDE)
    casts = [widen_attributes(node, {TensorProto.BFLOAT16}) for node in graph.nodes]
    found = bool(weights or constants or inputs or outputs or any(casts))
    if found:
        graph.notes.append(_said_of({"bfloat16"}, weights, inputs))
    return found


def widen(graph: Graph) -> bool:
    """Brings weights, inputs and what is computed from them to float32, in place; notes it.

    Returns:
        Whether anything was changed.

    Raises:
        UnsupportedError: a weight has elements beyond float32.
    """
    if _OTHERS.isdisjoint(graph.dtypes.values()):
        return False
    fed = {spec.name for spec in graph.inputs if "float" in spec.dtype}
    widening = _Widening(graph, dict(graph.dtypes), fed | graph.parameters.keys())
    graph.constants |= graph.unrounded
    graph.dtypes |= dict.fromkeys(graph.unrounded, _WIDE)
    graph.unrounded = {}
    weights, inputs = _masters(graph, _OTHERS), _take_inputs(graph, _OTHERS)
    graph.dtypes |= dict.fromkeys((*weights, *inputs), _WIDE)
    for node in graph.nodes:
        widening.take(node)
    graph.nodes = widening.nodes
    found = widening.found | set(weights.values())
    if found or inputs:
        graph.notes.append(_said_of(found, weights, inputs))
    return bool(found or inputs)


def widen_model(graph: onnx.GraphProto, types: Collection[int]) -> None:
    """Puts float32 in the place of these element types in a graph that nobody writes back."""
    for tensor in graph.initializer:
        if tensor.data_type in types:
            value = _bounded(numpy_helper.to_array(tensor))
            tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))
    _widen_values((*graph.input, *graph.output, *graph.value_info), types)
    for node in graph.node:
        widen_attributes(node, types)


def widen_attributes(node: onnx.NodeProto, types: Collection[int]) -> bool:
    """Puts float32 in the place of these element types, in bodies too; tells if there was any."""
    found = False
    for item in node.attribute:
        if item.name in _TYPES and item.i in types:
            item.i, found = TensorProto.FLOAT, True
        if item.type == onnx.AttributeProto.TENSOR and item.t.data_type in types:
            item.t.CopyFrom(numpy_helper.from_array(_bounded(numpy_helper.to_array(item.t))))
            found = True
    for body in bodies_of(node):
        _widen_values((*body.input, *body.output, *body.value_info), types)
        found |= any([widen_attributes(inner, types) for inner in body.node])
    return found


@dataclass
class _Widening:
    """The nodes so far.

    Attributes:
        graph: whose nodes are taken, in order.
        before: dtypes as they are in the file.
        floats: tensors that follow from weights or float inputs, or that were widened.
        nodes: those that stand for what was taken.
        wide: float32 names of constants and of tensors that keep their type.
        found: dtypes that were widened.
    """

    graph: Graph
    before: dict[str, str]
    floats: set[str]
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    wide: dict[str, str] = field(default_factory=dict)
    found: set[str] = field(default_factory=set)

    def take(self, node: onnx.NodeProto) -> None:
        """Adds the node, as it is or computing in float32."""
        read = names_read(node)
        touched = {self.before.get(name, "") for name in (*read, *node.output)} & _OTHERS
        follows = not self.floats.isdisjoint(read)
        if follows or touched & _HALVES:
            self.floats |= {name for name in node.output if "float" in self._dtype(name)}
        if touched & _HALVES or (touched and follows):
            self.found |= touched
            self._widen(node)
        self.nodes.append(node)

    def _widen(self, node: onnx.NodeProto) -> None:
        for slot, name in enumerate(node.input):
            if self._dtype(name) in _OTHERS:
                node.input[slot] = self._as_float32(name)
        widen_attributes(node, OTHER_TYPES)
        for name in node.output:
            if self._dtype(name) in _OTHERS:
                self.graph.dtypes[name] = _WIDE

    def _dtype(self, name: str) -> str:
        return self.graph.dtypes.get(name, "")

    def _as_float32(self, name: str) -> str:
        """Name of a constant, or of what keeps its type, as float32."""
        if name in self.wide:
            return self.wide[name]
        value = self.graph.constants.get(name)
        if value is None:
            wide = f"{name}::{_WIDE}"
            self.nodes.append(helper.make_node("Cast", [name], [wide], to=TensorProto.FLOAT))
        else:
            wide = self.graph.add_constant(_WIDE, _bounded(value))
        self.graph.dtypes[wide] = _WIDE
        self.wide[name] = wide
        return wide


def _masters(graph: Graph, dtypes: frozenset[str]) -> dict[str, str]:
    """Gives weights of these dtypes float32 masters; returns what each was."""
    weights = {spec.name: spec.dtype for spec in graph.parameter_specs() if spec.dtype in dtypes}
    for name in weights:
        graph.parameters[name] = _master(name, graph.parameters[name])
    return weights


def _take_inputs(graph: Graph, dtypes: frozenset[str]) -> list[str]:
    """Takes inputs of these dtypes as float32; returns their names."""
    names = [spec.name for spec in graph.inputs if spec.dtype in dtypes]
    graph.inputs = tuple(
        replace(spec, dtype=_WIDE) if spec.dtype in dtypes else spec for spec in graph.inputs
    )
    return names


def _master(name: str, value: np.ndarray) -> np.ndarray:
    """The float32 master of a weight."""
    with np.errstate(over="ignore"):
        master = value.astype(np.float32)
    if np.isinf(master).any():
        raise UnsupportedError(
            f"the weight has elements beyond float32's {_LARGEST:g}, and is trained in float32",
            where=f"initializer {name}",
            hint="scale it where the model is exported",
        )
    return master


def _bounded(value: np.ndarray) -> np.ndarray:
    """A constant as float32: what is finite stays so, such as the least float64 of a mask."""
    with np.errstate(over="ignore"):
        result = value.astype(np.float32)
    beyond = np.isinf(result) & ~np.isinf(value)
    return np.where(beyond, np.copysign(np.float32(_LARGEST), result), result)


def _widen_values(values: Iterable[onnx.ValueInfoProto], types: Collection[int]) -> None:
    for value in values:
        if value.type.tensor_type.elem_type in types:
            value.type.tensor_type.elem_type = TensorProto.FLOAT


def _said_of(dtypes: Iterable[str], weights: dict[str, str], inputs: list[str]) -> str:
    """Notes on computations in another type than the file's."""
    said = f"{' and '.join(sorted(dtypes))} is computed in float32"
    if inputs:
        said += f"; inputs are taken as float32: {', '.join(inputs)}"
    for dtype in sorted(set(weights.values())):
        count = list(weights.values()).count(dtype)
        trained = "1 weight is" if count == 1 else f"{count} weights are"
        said += f"; {trained} held in float32, and written back as {dtype}"
    return said
