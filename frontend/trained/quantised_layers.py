"""Layers that read a matrix of integers through its dequantisation, as adapters see them.

    DequantizeLinear, or Cast, Sub and Mul by scales and zero points that the file holds; Transpose

The integers are no parameter, and are never trained: adapters may stand beside them.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import onnx

from odtc.frontend.graph import Graph, attributes
from odtc.frontend.trained.layers import WEIGHT_SLOTS, Layer, reads_transposed

# What each element passes through, in the first input's place or another's.
_ELEMENTWISE = frozenset(("Add", "Cast", "DequantizeLinear", "Div", "Identity", "Mul", "Sub"))
_MATRIX = 2
# The name of the integers, and whether they are read transposed.
_Source = tuple[str, bool]


def quantised_layers(graph: Graph) -> list[Layer]:
    """The layers whose weight is a matrix of 8-bit integers, in topological order."""
    return list(_Finder(graph).layers())


class _Finder:
    """Looks for what dequantised matrices are made of."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._makers: Mapping[str, onnx.NodeProto] = {
            name: node for node in graph.nodes for name in node.output
        }
        self._found: dict[str, _Source | None] = {}

    def layers(self) -> Iterator[Layer]:
        """Each layer."""
        for position, node in enumerate(self._graph.nodes):
            for slot in WEIGHT_SLOTS.get(node.op_type, ()):
                name = node.input[slot] if slot < len(node.input) else ""
                # What is no node's own is a parameter's layer, or none.
                source = self._source(name) if name in self._makers else None
                if source is not None:
                    weight, turned = source
                    transposed = turned != reads_transposed(node, slot)
                    yield Layer(node, position, weight, slot, transposed, ())

    def _source(self, name: str) -> _Source | None:
        """The integers that a tensor is computed from, element by element."""
        if name not in self._found:
            # Nothing is made of itself: this only ends a walk that comes here again.
            self._found[name] = None
            self._found[name] = self._look(name)
        return self._found[name]

    def _look(self, name: str) -> _Source | None:
        constant, maker = self._graph.constants.get(name), self._makers.get(name)
        if constant is not None:
            is_matrix = constant.dtype in (np.int8, np.uint8) and constant.ndim == _MATRIX
            return (name, False) if is_matrix else None
        if maker is None:
            return None
        if maker.op_type == "Transpose":
            source = self._source(maker.input[0])
            is_turned = list(attributes(maker).get("perm", (1, 0))) == [1, 0]
            return (source[0], not source[1]) if source and is_turned else None
        if maker.op_type not in _ELEMENTWISE:
            return None
        shape = self._graph.shapes.get(name)
        whole = [each for each in maker.input if each and self._graph.shapes.get(each) == shape]
        sources = [source for each in whole if (source := self._source(each)) is not None]
        # Most tensors come from no integers: only of the others it is asked, back to the inputs.
        is_still = sources and all(self._is_still(each) for each in maker.input if each)
        return sources[0] if is_still else None

    def _is_still(self, name: str) -> bool:
        """Whether a tensor is the same whatever is fed."""
        constants, parameters = self._graph.constants, self._graph.parameters
        seen, waiting = set[str](), [name]
        while waiting:
            each = waiting.pop()
            if each in seen or each in constants or each in parameters or not each:
                continue
            if each not in self._makers:
                return False
            seen.add(each)
            waiting += self._makers[each].input
        return True
