"""Sequences of tensors as what they hold, where positions are constant."""

from collections.abc import Callable, Sequence

import numpy as np
import onnx

from odtc.frontend.graph import Graph, attributes
from odtc.frontend.normalize.subgraphs import Inlined

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
    value = graph.constants.get(node.input[slot])
    return None if value is None else int(value.item())


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
    axis = attrs.get("axis", 0)
    size = graph.shapes[node.input[0]][axis]
    sizes = _sizes(size, graph.constants[given] if given else np.array(1))
    parts = inlined.split(node.input[0], axis, sizes) if len(sizes) > 1 else [node.input[0]]
    if not given and not attrs.get("keepdims", 1):
        parts = [inlined.squeeze(part, axis) for part in parts]
    held[node.output[0]] = parts
    return True


def _sizes(size: int, split: np.ndarray) -> Sequence[int]:
    """Sizes of the parts: as listed, or all of one size but for a smaller last one."""
    if split.ndim:
        return [int(part) for part in split]
    chunk = int(split)
    return [min(chunk, size - start) for start in range(0, size, chunk)]


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
