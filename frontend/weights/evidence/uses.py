"""How the tensors of a graph are used: which depend on data, and who reads a stored tensor."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import onnx

from odtc.frontend.graph import bodies_of

# Of these only the first input is data; the others say how it is laid out or chosen.
_SHAPING = frozenset(
    "Cast CastLike Clip Expand Flatten Gather GatherElements GatherND Identity Pad Reshape Resize "
    "Slice Split Squeeze Tile Transpose Trilu Unsqueeze".split()
)
# What these give of a stored tensor is that tensor in another form, whatever the other inputs are.
# A look-up is not: its indices are mostly data. Nor is a number that is repeated, such as the zeros
# in the place of a bias.
_LAYING_OUT = frozenset(
    "Cast Flatten Identity Reshape Slice Split Squeeze Transpose Unsqueeze".split()
)
# A measure of a tensor is no view of it.
_MEASURING = frozenset(
    "ArgMax ArgMin ReduceL1 ReduceL2 ReduceMax ReduceMean ReduceMin ReduceSum Shape Size".split()
)
_RANDOM = frozenset(
    "Bernoulli Dropout Multinomial RandomNormal RandomNormalLike RandomUniform "
    "RandomUniformLike".split()
)
# What multiplies data with a stored tensor, and the slots that this may be in.
PRODUCTS: Mapping[str, tuple[int, ...]] = {
    "Conv": (1,),
    "ConvTranspose": (1,),
    "DeformConv": (1,),
    "Einsum": (0, 1),
    "GRU": (1, 2),
    "Gemm": (0, 1),
    "LSTM": (1, 2),
    "MatMul": (0, 1),
    "RNN": (1, 2),
}
PASSES_ON = frozenset(
    "Cast Dropout Flatten Identity Reshape Slice Split Squeeze Transpose Unsqueeze".split()
)
_FURTHEST = 8


@dataclass(frozen=True)
class Read:
    """A node that depends on data, and reads a stored tensor or what was made of it alone.

    Attributes:
        node: it.
        slot: which of its inputs.
    """

    node: onnx.NodeProto
    slot: int

    @property
    def others(self) -> list[str]:
        """The other inputs."""
        return [name for slot, name in enumerate(self.node.input) if slot != self.slot and name]


@dataclass(frozen=True)
class Uses:
    """The nodes of a graph, those in bodies among them.

    Attributes:
        nodes: in order.
        stored: the graph's tensors, by name.
    """

    nodes: tuple[onnx.NodeProto, ...]
    stored: Mapping[str, np.ndarray]

    @cached_property
    def makers(self) -> dict[str, onnx.NodeProto]:
        """The node that gives a tensor, by the tensor's name."""
        return {name: node for node in self.nodes for name in node.output if name}

    @cached_property
    def readers(self) -> dict[str, list[Read]]:
        """All nodes that read a tensor."""
        found: dict[str, list[Read]] = {}
        for node in self.nodes:
            for slot, name in enumerate(node.input):
                found.setdefault(name, []).append(Read(node, slot))
        return found

    @cached_property
    def still(self) -> frozenset[str]:
        """Tensors that do not depend on data: stored ones, shapes, and what follows from these."""
        found = set(self.stored)
        for node in self.nodes:
            if self._is_still(node, found):
                found.update(node.output)
        return frozenset(found)

    @staticmethod
    def _is_still(node: onnx.NodeProto, still: set[str]) -> bool:
        if node.op_type in ("Constant", "Shape", "Size"):
            return True
        if bodies_of(node) or node.op_type in _RANDOM:
            return False
        # Sizes and places may be integers of the file, or be computed of the data's own sizes.
        read = node.input[:1] if node.op_type in _LAYING_OUT else node.input
        return all(name in still for name in read if name)

    @cached_property
    def learned(self) -> frozenset[str]:
        """Tensors after a product or a look-up of data with something stored."""
        found: set[str] = set()
        for node in self.nodes:
            slots = PRODUCTS.get(node.op_type, (0,) if node.op_type == "Gather" else ())
            applies = any(
                slot < len(node.input) and node.input[slot] in self.still for slot in slots
            )
            depends = any(name not in self.still for name in node.input if name)
            if (applies and depends) or any(name in found for name in node.input):
                found.update(node.output)
        return frozenset(found)

    def reads_of(self, name: str) -> Iterator[Read]:
        """The nodes that meet data with a stored tensor or with what was made of it."""
        waiting, seen = [name], {name}
        while waiting:
            for read in self.readers.get(waiting.pop(), ()):
                if not self.still.issuperset(read.node.output):
                    yield read
                elif _goes_on(read) and not self._is_vector_in_product(name, read):
                    waiting += [out for out in read.node.output if out not in seen]
                    seen.update(read.node.output)

    def _is_vector_in_product(self, name: str, read: Read) -> bool:
        """Whether it measures a weight, as the vectors of a spectral norm do."""
        return read.node.op_type in PRODUCTS and self.stored[name].ndim < 2

    def source(self, name: str) -> onnx.NodeProto | None:
        """The node that computes a tensor, looking through what only lays it out anew."""
        node = self.makers.get(name)
        for _ in range(_FURTHEST):
            if node is None or node.op_type not in PASSES_ON:
                break
            node = self.makers.get(node.input[0])
        return node

    def origin(self, name: str) -> np.ndarray | None:
        """The stored tensor that a still one is laid out from."""
        for _ in range(_FURTHEST):
            if name in self.stored:
                return self.stored[name]
            node = self.makers.get(name)
            if node is None or not node.input:
                break
            name = node.input[0]
        return None


def flattened(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """The nodes of a graph, those of bodies in front of the node that has them."""
    for node in nodes:
        for body in bodies_of(node):
            yield from flattened(body.node)
        yield node


def _goes_on(read: Read) -> bool:
    """Whether what a still node makes of a tensor is that tensor in another form."""
    if read.node.op_type in _MEASURING:
        return False
    return read.slot == 0 or read.node.op_type not in _SHAPING
