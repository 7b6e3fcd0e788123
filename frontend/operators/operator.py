"""The entry of an ONNX operator in odtc's tables, and what its functions work with.

An operator is rewritten into simpler ones (`expand`), or written in Relax (`convert`), or left to
TVM's importer where that brings it rightly.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper
from tvm import relax

from odtc.frontend.graph import Graph, attributes, only


class Level(StrEnum):
    """The level of support of a node."""

    TRAINABLE = "trainable"
    FORWARD_ONLY = "forward-only"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True)
class Node:
    """An ONNX node, and what its graph knows of its tensors.

    Attributes:
        graph: that the node is of.
        proto: the node itself.
        in_use: the graph's names in use; who looks at many nodes asks once for all of them.
    """

    graph: Graph
    proto: onnx.NodeProto
    in_use: frozenset[str] | None = None

    @cached_property
    def attrs(self) -> dict[str, Any]:
        """Attributes as Python values."""
        return attributes(self.proto)

    @property
    def opset(self) -> int:
        """Version of the operator set."""
        return self.graph.opset

    @property
    def inputs(self) -> list[str]:
        """Names of the inputs; an input that is left out is empty."""
        return list(self.proto.input)

    def has(self, slot: int) -> bool:
        """Whether there is such an input."""
        return slot < len(self.proto.input) and bool(self.proto.input[slot])

    def shape(self, slot: int = 0) -> tuple[int, ...]:
        """Shape of an input.

        Raises:
            KeyError: inference does not know it; `require_trainable` has refused such a node.
        """
        return self.graph.shapes[self.proto.input[slot]]

    def rank(self, slot: int = 0) -> int:
        """Rank of an input; 0 where its shape is unknown."""
        return len(self.graph.shapes.get(self.proto.input[slot], ())) if self.has(slot) else 0

    def dtype(self, slot: int = 0) -> str:
        """Numpy dtype name of an input."""
        return self.graph.dtypes.get(self.proto.input[slot], "float32")

    def output_shape(self, slot: int = 0) -> tuple[int, ...] | None:
        """Shape of an output, if it is known."""
        return self.graph.shapes.get(self.proto.output[slot])

    def constant(self, slot: int) -> np.ndarray | None:
        """Value of an input that is constant."""
        return self.graph.constants.get(self.proto.input[slot]) if self.has(slot) else None

    def ints(self, name: str, slot: int | None = None) -> list[int] | None:
        """Integers that ONNX takes as an attribute, or since some opset as a constant input."""
        if name in self.attrs:
            return list(self.attrs[name])
        value = None if slot is None else self.constant(slot)
        return None if value is None else [int(item) for item in np.ravel(value)]

    def number(self, name: str, slot: int | None = None) -> float | None:
        """A number that ONNX takes as an attribute, or since some opset as a constant input.

        Raises:
            ModelError: the input has more elements than one, or none.
        """
        if name in self.attrs:
            return self.attrs[name]
        return None if slot is None else only(self.graph, self.proto, slot)

    def is_read(self, slot: int) -> bool:
        """Whether an output exists and something depends on it."""
        if slot >= len(self.proto.output) or not self.proto.output[slot]:
            return False
        in_use = self.graph.names_in_use() if self.in_use is None else self.in_use
        return self.proto.output[slot] in in_use


class Emit:
    """Collects the nodes that stand for one node.

    `emit("Mul", x, 2.0)` adds a node and returns the name of its output. Inputs are names, or
    values, which become constants (a Python float one of the first input's dtype, or of float32
    where that is no float; an int one of int64); None leaves an input out.
    """

    def __init__(self, node: Node) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self._node = node
        # What is said of the nodes is said of the one that they stand for.
        self._label = node.proto.name or f"-> {node.proto.output[0]}"

    def __call__(self, op_type: str, *inputs: str | npt.ArrayLike | None, **attrs: Any) -> str:
        """Adds a node of one output."""
        return self.several(op_type, 1, *inputs, **attrs)[0]

    def several(
        self, op_type: str, count: int, *inputs: str | npt.ArrayLike | None, **attrs: Any
    ) -> list[str]:
        """Adds a node of `count` outputs and returns their names."""
        stem = f"{self._node.proto.output[0]}::{op_type}{len(self.nodes)}"
        outputs = [f"{stem}.{slot}" if slot else stem for slot in range(count)]
        names = [self._name(value, op_type) for value in inputs]
        node = helper.make_node(op_type, names, outputs, name=self._label, **attrs)
        self.nodes.append(node)
        return outputs

    def _name(self, value: str | npt.ArrayLike | None, hint: str) -> str:
        if value is None or isinstance(value, str):
            return value or ""
        if isinstance(value, float):
            dtype = np.dtype(self._node.dtype())
            value = np.asarray(value, dtype if dtype.kind == "f" else np.float32)
        array = np.asarray(value)
        return self._node.graph.add_constant(hint, array)


# Why a node cannot be used; empty where it can.
Condition = Callable[[Node], str]
# The names of the outputs of the nodes in its place, in order; None leaves the node as it is.
Expand = Callable[[Node, Emit], str | Sequence[str] | None]
# The node in Relax: its result, or one for each output. Inputs that are left out are None.
Convert = Callable[
    [relax.BlockBuilder, Node, Sequence[Any]], relax.Expr | Sequence[relax.Expr | None]
]


def always(_: Node) -> str:
    """No node of the operator is refused."""
    return ""


@dataclass(frozen=True)
class Operator:
    """The support of an ONNX operator.

    Attributes:
        level: trainable, or forward-only: it has no gradient yet, and can stand where nothing
            before it is trained, or where its results are no floats.
        condition: why a node cannot be used.
        expand: its form in other operators; done again until nothing changes.
        convert: its form in Relax; None leaves it to TVM's importer.
        encodes: its results are integers that stand for floats; a forward-only operator of these
            would lose the gradient, so that it must not stand after what is trained.
    """

    level: Level = Level.TRAINABLE
    condition: Condition = always
    expand: Expand | None = None
    convert: Convert | None = None
    encodes: bool = False


FORWARD_ONLY = Operator(Level.FORWARD_ONLY)


def is_float(dtype: str) -> bool:
    """Whether a dtype, by its numpy name, is one of real numbers."""
    return "float" in dtype


def unary(build: Callable[[Any], relax.Expr]) -> Convert:
    """Converter of an operator of one tensor and no attributes."""
    return lambda _, __, inputs: build(inputs[0])


def binary(build: Callable[[Any, Any], relax.Expr]) -> Convert:
    """Converter of an operator of two tensors and no attributes."""
    return lambda _, __, inputs: build(inputs[0], inputs[1])
