"""Sequences of tensors as what they hold, where positions are constant."""

from collections.abc import Callable

import numpy as np
import onnx

from odtc.core.errors import ModelError
from odtc.frontend.graph import Graph, attributes, describe_node, only
from odtc.frontend.normalize.control.subgraphs import Inlined

# The tensors that a sequence holds, by the sequence's name.
Held = dict[str, list[str]]
Rule = Callable[[Graph, onnx.NodeProto, Inlined, Held], bool]


def _construct(_: Graph, node: onnx.NodeProto, __: Inlined, held: Held) -> bool:
    held[node.output[0]] = list(node.input)
    return True


def _identity(_: Graph, node: onnx.NodeProto, __: Inlined, held: Held) -> bool:
    known = node.input[0] in held
    if known:
        held[node.output[0]] = held[node.input[0]]
    return known


def _position(graph: Graph, node: onnx.NodeProto, slot: int) -> int | None:
    """A constant position; the end where it is left out."""
    if slot >= len(node.input) or not node.input[slot]:
        return -1
    value = only(graph, node, slot)
    return None if value is None else int(value)


def _at(graph: Graph, node: onnx.NodeProto, inlined: Inlined, held: Held) -> bool:
    parts, position = held.get(node.input[0]), _position(graph, node, 1)
    if parts is None or position is None or not -len(parts) <= position < len(parts):
        return False
    inlined.results = [parts[position]]
    return True


def _insert(graph: Graph, node: onnx.NodeProto, _: Inlined, held: Held) -> bool:
    parts, position = held.get(node.input[0]), _position(graph, node, 2)
    if parts is None or position is None:
        return False
    at = len(parts) if len(node.input) < 3 else position
    parts = [*parts]
    parts.insert(at, node.input[1])
    held[node.output[0]] = parts
    return True


def _erase(graph: Graph, node: onnx.NodeProto, _: Inlined, held: Held) -> bool:
    parts, position = held.get(node.input[0]), _position(graph, node, 1)
    if not parts or position is None:
        return False
    gone = position % len(parts)
    held[node.output[0]] = [part for at, part in enumerate(parts) if at != gone]
    return True


def _length(graph: Graph, node: onnx.NodeProto, inlined: Inlined, held: Held) -> bool:
    known = node.input[0] in held
    if known:
        count = np.array(len(held[node.input[0]]))
        inlined.results = [graph.add_constant("length", count)]
    return known


def _join(_: Graph, node: onnx.NodeProto, inlined: Inlined, held: Held) -> bool:
    parts, attrs = held.get(node.input[0]), attributes(node)
    if not parts:
        return False
    if attrs.get("new_axis"):
        parts = [inlined.unsqueeze(part, attrs["axis"]) for part in parts]
    inlined.results = inlined.emit("Concat", *parts, axis=attrs["axis"])
    return True


def _split(graph: Graph, node: onnx.NodeProto, inlined: Inlined, held: Held) -> bool:
    attrs, given = attributes(node), node.input[1] if len(node.input) > 1 else ""
    if node.input[0] not in graph.shapes or (given and given not in graph.constants):
        return False
    axis, shape = attrs.get("axis", 0), graph.shapes[node.input[0]]
    parts = graph.constants[given] if given else np.array(1)
    sizes = _sizes(shape[axis], parts) if -len(shape) <= axis < len(shape) else []
    if not sizes:
        raise ModelError(
            f"axis {axis} of a tensor of the shape {list(shape)} cannot be split so",
            where=f"node {describe_node(node)}",
            hint="its parts have at least one element, and make up the axis",
        )
    pieces = inlined.split(node.input[0], axis, sizes) if len(sizes) > 1 else [node.input[0]]
    if not given and not attrs.get("keepdims", 1):
        pieces = [inlined.squeeze(piece, axis) for piece in pieces]
    held[node.output[0]] = pieces
    return True


def _sizes(size: int, split: np.ndarray) -> list[int]:
    """Sizes of the parts: as listed, or all alike but for a smaller last one; none if wrong."""
    if split.size != 1 and split.ndim != 1:
        return []
    if split.ndim:
        sizes = split.tolist()
    else:
        chunk = max(int(split), 0)
        sizes = [min(chunk, size - start) for start in range(0, size, chunk or 1)]
    return sizes if min(sizes, default=0) > 0 and sum(sizes) == size else []


RULES: dict[str, Rule] = {
    "ConcatFromSequence": _join,
    "Identity": _identity,
    "SequenceAt": _at,
    "SequenceConstruct": _construct,
    "SequenceEmpty": _construct,
    "SequenceErase": _erase,
    "SequenceInsert": _insert,
    "SequenceLength": _length,
    "SplitToSequence": _split,
}
