"""Computes in float32 what a file computes in float16, bfloat16 or float64.

A step of training adds small numbers to weights: float16 would round them away, and no phone's GPU
has float64. So weights get float32 masters, inputs are taken as float32, and so is all that is
computed from them; `odtc/core/weights.py` writes weights back in the file's own type. A cast from
one of these types to another is gone then, so that a weight behind it is read as any other.

Float64 that comes of integers alone, such as the arithmetic of sizes and positions, keeps its type
up to where it meets the others: rounded otherwise, it could give another integer. Call this when
constants are folded, in their own types, and bodies are inlined.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from odtc.core.errors import UnsupportedError
from odtc.core.weight_places import FLOATS, bodies_of
from odtc.frontend.graph import Graph, names_read
from odtc.frontend.normalize.constants import fold_and_infer

_WIDE = "float32"
_HALVES = frozenset({"float16", "bfloat16"})
_OTHERS = _HALVES | {"float64"}
_OTHER_TYPES = FLOATS - {TensorProto.FLOAT}
# Attributes that name an element type.
_TYPES = frozenset({"to", "dtype", "output_dtype", "output_datatype", "stash_type"})
_LARGEST = float(np.finfo(np.float32).max)


def widen(graph: Graph) -> None:
    """Brings weights, inputs and what is computed from them to float32, in place; notes it.

    Raises:
        UnsupportedError: a weight has elements beyond float32.
    """
    if _OTHERS.isdisjoint(graph.dtypes.values()):
        return
    widening = _Widening.of(graph)
    weights = {spec.name: spec.dtype for spec in graph.parameter_specs() if spec.dtype in _OTHERS}
    inputs = [spec.name for spec in graph.inputs if spec.dtype in _OTHERS]
    for name in weights:
        graph.parameters[name] = _master(name, graph.parameters[name])
    graph.inputs = tuple(
        replace(spec, dtype=_WIDE) if spec.dtype in _OTHERS else spec for spec in graph.inputs
    )
    graph.dtypes |= dict.fromkeys((*weights, *inputs), _WIDE)
    for node in graph.nodes:
        widening.take(node)
    graph.nodes = widening.nodes
    if weights or inputs or widening.found:
        graph.notes.append(_said_of(widening.found | set(weights.values()), weights, inputs))
        fold_and_infer(graph)


@dataclass
class _Widening:
    """The nodes so far.

    Attributes:
        graph: whose nodes are taken, in order.
        before: dtypes as they are in the file.
        floats: tensors that follow from weights or float inputs, or that were widened.
        nodes: those that stand for what was taken.
        wide: float32 names of constants and of tensors that keep their type.
        alias: names in the place of results of casts that are gone.
        found: dtypes that were widened.
    """

    graph: Graph
    before: dict[str, str]
    floats: set[str]
    nodes: list[onnx.NodeProto]
    wide: dict[str, str]
    alias: dict[str, str]
    found: set[str]

    @classmethod
    def of(cls, graph: Graph) -> "_Widening":
        fed = {spec.name for spec in graph.inputs if "float" in spec.dtype}
        return cls(graph, dict(graph.dtypes), fed | graph.parameters.keys(), [], {}, {}, set())

    def take(self, node: onnx.NodeProto) -> None:
        """Adds the node, or what stands for it."""
        read = names_read(node)
        touched = {self.before.get(name) for name in (*read, *node.output)} & _OTHERS
        follows = not self.floats.isdisjoint(read)
        for slot, name in enumerate(node.input):
            node.input[slot] = self.alias.get(name, name)
        if follows or touched & _HALVES:
            self.floats |= {name for name in node.output if "float" in self._dtype(name)}
        if not (touched & _HALVES or (touched and follows)):
            self.nodes.append(node)
            return
        self.found |= touched
        for slot, name in enumerate(node.input):
            if self._dtype(name) in _OTHERS:
                node.input[slot] = self._wide(name)
        _widen_attributes(node)
        for name in node.output:
            if self._dtype(name) in _OTHERS:
                self.graph.dtypes[name] = _WIDE
        if node.op_type != "Cast" or not self._is_gone(node):
            self.nodes.append(node)

    def _dtype(self, name: str) -> str:
        return self.graph.dtypes.get(name, "")

    def _wide(self, name: str) -> str:
        """A constant, or what keeps its type, as float32."""
        if name not in self.wide:
            value = self.graph.constants.get(name)
            if value is None:
                self.wide[name] = f"{name}::{_WIDE}"
                cast = helper.make_node("Cast", [name], [self.wide[name]], to=TensorProto.FLOAT)
                self.nodes.append(cast)
                self.graph.dtypes[self.wide[name]] = _WIDE
            else:
                self.wide[name] = self.graph.add_constant(_WIDE, _bounded(value))
                self.graph.dtypes[self.wide[name]] = _WIDE
        return self.wide[name]

    def _is_gone(self, cast: onnx.NodeProto) -> bool:
        """Whether the cast changes nothing any more, and another name stands for its result."""
        source, result = cast.input[0], cast.output[0]
        if {self._dtype(source), self._dtype(result)} != {_WIDE}:
            return False
        if result not in self.graph.outputs:
            self.alias[result] = source
            return True
        made = any(source in node.output for node in self.nodes)
        if not made or source in self.graph.outputs:
            return False
        # What is looked for at an output, such as a closing activation, must be found there.
        for node in self.nodes:
            for names in (node.input, node.output):
                for slot, name in enumerate(names):
                    names[slot] = result if name == source else name
        self.alias = {k: result if v == source else v for k, v in self.alias.items()}
        self.alias[source] = result
        self.floats.add(result)
        return True


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


def _widen_attributes(node: onnx.NodeProto) -> None:
    for item in node.attribute:
        if item.name in _TYPES and item.i in _OTHER_TYPES:
            item.i = TensorProto.FLOAT
        if item.type == onnx.AttributeProto.TENSOR and item.t.data_type in _OTHER_TYPES:
            item.t.CopyFrom(numpy_helper.from_array(_bounded(numpy_helper.to_array(item.t))))
    for body in bodies_of(node):
        for value in (*body.input, *body.output, *body.value_info):
            if value.type.tensor_type.elem_type in _OTHER_TYPES:
                value.type.tensor_type.elem_type = TensorProto.FLOAT
        for inner in body.node:
            _widen_attributes(inner)


def _said_of(dtypes: Iterable[str], weights: dict[str, str], inputs: list[str]) -> str:
    """What is computed otherwise than the file says."""
    said = f"{' and '.join(sorted(dtypes))} is computed in float32"
    if inputs:
        said += f"; inputs are taken as float32: {', '.join(inputs)}"
    for dtype in sorted(set(weights.values())):
        count = list(weights.values()).count(dtype)
        trained = "1 weight is" if count == 1 else f"{count} weights are"
        said += f"; {trained} held in float32, and written back as {dtype}"
    return said
