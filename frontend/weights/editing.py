"""Edits the stored tensors of an ONNX model in place."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from odtc.core.errors import ModelError
from odtc.frontend.weights.elements import damaged
from odtc.frontend.weights.evidence.uses import flattened
from odtc.frontend.weights.in_file import array_of, bytes_of

# Says of a tensor what odtc made it from, such as `apart: n1.weight`.
KEY = "odtc.restored"
APART, TURNED, LEFT_OUT, NUMBER = "apart", "turned", "left out", "number"
# Bytes that may be added: more than this no ONNX file can hold beside its graph.
_MOST = 2 << 30
_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)


@dataclass
class Editing:
    """The float initializers of a model, and nodes that are to be put in.

    Attributes:
        graph: of the model.
        tensors: the float initializers, by name.
        before: nodes to put in front of one, by the place of that one.
        added: bytes of the tensors that were added.
    """

    graph: onnx.GraphProto
    tensors: dict[str, TensorProto] = field(init=False)
    before: dict[int, list[onnx.NodeProto]] = field(default_factory=dict)
    added: int = 0

    def __post_init__(self) -> None:
        self.tensors = {t.name: t for t in self.graph.initializer if t.data_type in _FLOATS}

    def value(self, name: str) -> np.ndarray:
        """The elements of a tensor.

        Raises:
            ModelError: they are damaged.
        """
        with damaged(name):
            return array_of(self.tensors[name])

    def copy(self, source: str, name: str, how: str) -> None:
        """Stores a tensor once more, under another name."""
        tensor = self.graph.initializer.add()
        tensor.CopyFrom(self.tensors[source])
        tensor.name = name
        self._note(tensor, how)

    def store(self, name: str, value: np.ndarray, like: str, how: str) -> None:
        """Stores new elements, in the type of another tensor."""
        dtype = helper.tensor_dtype_to_np_dtype(self.tensors[like].data_type)
        tensor = self.graph.initializer.add()
        tensor.CopyFrom(numpy_helper.from_array(np.asarray(value, dtype, order="C"), name))
        self._note(tensor, how)

    def store_sizes(self, name: str, sizes: Sequence[int]) -> None:
        """Stores sizes for a Reshape or an Expand."""
        self.graph.initializer.append(numpy_helper.from_array(np.array(sizes, np.int64), name))

    def insert_nodes(self) -> None:
        """Puts the new nodes where they belong."""
        for place in sorted(self.before, reverse=True):
            for node in reversed(self.before[place]):
                self.graph.node.insert(place, node)
        self.before.clear()

    def drop_unread(self, names: set[str]) -> None:
        """Drops those of these tensors that nothing reads any more."""
        gone = names - {name for node in flattened(self.graph.node) for name in node.input}
        gone -= {value.name for value in self.graph.output}
        for place in reversed(range(len(self.graph.initializer))):
            if self.graph.initializer[place].name in gone:
                del self.graph.initializer[place]

    def _note(self, tensor: TensorProto, how: str) -> None:
        self.added += bytes_of(tensor)
        if self.added > _MOST:
            raise ModelError(
                f"its merged parameters take more than {_MOST:,} bytes when they are separate",
                where=f"initializer {tensor.name}",
                hint="export the model with optimize=False, or by odtc.from_torch",
            )
        del tensor.metadata_props[:]
        tensor.metadata_props.add(key=KEY, value=how)
        self.tensors[tensor.name] = tensor


def restored(graph: onnx.GraphProto) -> dict[str, tuple[str, str]]:
    """How a tensor was restored, and from which one, by its name."""
    notes = {
        tensor.name: pair.value
        for tensor in graph.initializer
        for pair in tensor.metadata_props
        if pair.key == KEY
    }
    parts = {name: text.partition(": ") for name, text in notes.items()}
    return {name: (how, source) for name, (how, _, source) in parts.items()}
