"""A graph as edits see it: its values, their types, and their readers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

import numpy as np
import onnx.shape_inference
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, numpy_helper

from odtc.frontend.file.bodies import require_counts

T = TypeVar("T")
Shape = tuple[int | str, ...]


class NoPlaceError(Exception):
    """The graph has nothing that the edit could change."""


def pick(rng: Random, items: Sequence[T]) -> T:
    """One of them.

    Raises:
        NoPlaceError: there is none.
    """
    if not items:
        raise NoPlaceError
    return rng.choice(items)


@dataclass
class Editor:
    """A model while it is edited.

    Attributes:
        model: changed in place.
        types: dtype and shape of each tensor of the graph that shape inference knows, as it was
            when the edit began.
    """

    model: ModelProto
    types: dict[str, tuple[int, Shape]] = field(default_factory=dict)

    @property
    def graph(self) -> GraphProto:
        """The main graph."""
        return self.model.graph

    @property
    def nodes(self) -> list[NodeProto]:
        """Its nodes."""
        return list(self.graph.node)

    def look(self) -> None:
        """Infers the types of the graph as it is now."""
        try:
            # What odtc refuses so may end the process in ONNX's inference.
            require_counts(self.model)
            graph = onnx.shape_inference.infer_shapes(self.model).graph
        except Exception:
            # A damaged graph: edits see the types that it declares.
            graph = self.graph
        self.types = {
            **{item.name: _type_of(item) for item in (*graph.value_info, *graph.output)},
            **{item.name: _type_of(item) for item in graph.input},
            **{item.name: (item.data_type, tuple(item.dims)) for item in graph.initializer},
        }

    def is_float(self, name: str) -> bool:
        """Whether a value is known to be float32."""
        return self.types.get(name, (0, ()))[0] == TensorProto.FLOAT

    def shape(self, name: str) -> Shape | None:
        """Its shape; None where it is not known."""
        return self.types[name][1] if name in self.types else None

    def floats(self) -> list[str]:
        """Values of float32 that nodes write, and inputs."""
        return [name for name in self.written() if self.is_float(name)]

    def written(self) -> list[str]:
        """Inputs, and what nodes write, in order."""
        weights = {item.name for item in self.graph.initializer}
        inputs = [item.name for item in self.graph.input if item.name not in weights]
        return inputs + [name for each in self.graph.node for name in each.output if name]

    def before(self, node: NodeProto) -> list[str]:
        """Values that a node may read: all that stand before it."""
        found = [item.name for item in (*self.graph.input, *self.graph.initializer)]
        for each in self.graph.node:
            if each == node:
                break
            found += [name for name in each.output if name]
        return list(dict.fromkeys(found))

    def readers(self, name: str) -> list[NodeProto]:
        """Nodes of the main graph that read a value."""
        return [each for each in self.graph.node if name in each.input]

    def fresh(self, stem: str) -> str:
        """A name that nothing has."""
        graph = self.graph
        taken = {item.name for item in (*graph.input, *graph.initializer, *graph.output)}
        taken |= {name for each in graph.node for name in (*each.input, *each.output)}
        return next(name for at in range(10_000) if (name := f"{stem}{at or ''}") not in taken)

    def constant(self, array: np.ndarray, stem: str = "k") -> str:
        """Adds an initializer, and returns its name."""
        name = self.fresh(stem)
        self.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def place_of(self, name: str) -> int:
        """The first place of the list of nodes where a value can be read."""
        nodes = self.graph.node
        return next((at + 1 for at, each in enumerate(nodes) if name in each.output), 0)

    def weights(self, *, is_float: bool = True) -> list[TensorProto]:
        """Initializers of float32, or all."""
        kept = self.graph.initializer
        return [t for t in kept if t.data_type == TensorProto.FLOAT or not is_float]


def _type_of(item: ValueInfoProto) -> tuple[int, Shape]:
    kind = item.type.tensor_type
    dims = tuple(
        dim.dim_value if dim.HasField("dim_value") else dim.dim_param for dim in kind.shape.dim
    )
    return kind.elem_type, dims
