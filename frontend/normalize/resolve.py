"""Puts static operators in the place of those whose outputs no shape inference could know.

That are the control flow, sequences and optionals, and operators whose output is as large as a
constant input says. What cannot be resolved is left, and refused later with the reason.
"""

from collections.abc import Callable

import numpy as np
import onnx
from onnx import helper

from odtc.frontend.graph import Graph, attributes
from odtc.frontend.normalize.control import optionals, sequences
from odtc.frontend.normalize.control.sequences import Held
from odtc.frontend.normalize.control.subgraphs import (
    Inlined,
    inline_if,
    inline_loop,
    inline_scan,
    rename,
)
from odtc.frontend.normalize.shapes import unpooled_shape

PADS_INPUT_SINCE = 11
_HELD = sequences.RULES | optionals.RULES
_BODIES = {"If": inline_if, "Loop": inline_loop, "Scan": inline_scan}


def resolve(graph: Graph) -> bool:
    """Resolves what can be resolved now; tells if anything changed.

    Args:
        graph: constants folded and shapes inferred; both have to be done again after a change.
    """
    if all(node.op_type not in _RULED for node in graph.nodes):
        return False
    alias: dict[str, str] = {}
    held: Held = {}
    nodes: list[onnx.NodeProto] = []
    changed = False
    for old_node in graph.nodes:
        node = rename(old_node, alias)
        inlined = Inlined(graph, node.output[0])
        if not _resolved(graph, node, inlined, held):
            nodes.append(node)
            continue
        nodes.extend(inlined.nodes)
        changed = True
        for old, new in zip(node.output, inlined.results, strict=False):
            if old in graph.outputs:
                # An output keeps its name: losses are given by that.
                nodes.append(helper.make_node("Identity", [new], [old]))
            elif old:
                alias[old] = new
    graph.nodes = nodes
    return changed


def _resolved(graph: Graph, node: onnx.NodeProto, inlined: Inlined, held: Held) -> bool:
    if node.op_type in _BODIES:
        return _BODIES[node.op_type](graph, node, inlined)
    if node.op_type in _HELD:
        return _HELD[node.op_type](graph, node, inlined, held)
    rule = _SIZED.get(node.op_type)
    return rule is not None and rule(graph, node, inlined)


def _compress(graph: Graph, node: onnx.NodeProto, inlined: Inlined) -> bool:
    """A Gather of the places where a constant condition holds."""
    kept, axis = graph.constants.get(node.input[1]), attributes(node).get("axis")
    if kept is None:
        return False
    places = graph.add_constant("places", np.flatnonzero(kept))
    (data,) = [node.input[0]] if axis is not None else _flat(graph, node, inlined)
    inlined.results = inlined.emit("Gather", data, places, axis=axis or 0)
    return True


def _flat(graph: Graph, node: onnx.NodeProto, inlined: Inlined) -> list[str]:
    return inlined.emit("Reshape", node.input[0], graph.add_constant("flat", np.array([-1])))


def _max_unpool(graph: Graph, node: onnx.NodeProto, inlined: Inlined) -> bool:
    """One whose output is asked to be larger: zeros after what its indices count in."""
    given = graph.constants.get(node.input[2]) if len(node.input) > 2 else None
    shape = graph.shapes.get(node.input[0])
    if given is None or shape is None:
        return False
    attrs = attributes(node)
    behind = np.ravel(given) - unpooled_shape(shape, attrs)
    if behind.min() < 0:
        return False
    (image,) = inlined.emit("MaxUnpool", *node.input[:2], **attrs)
    pads = [*(0 for _ in shape), *map(int, behind)]
    inlined.results = _padded(graph, inlined, image, pads)
    return True


def _concat(graph: Graph, node: onnx.NodeProto, inlined: Inlined) -> bool:
    """Without the parts that have no elements."""
    parts = [name for name in node.input if 0 not in graph.shapes.get(name, ())]
    if not parts or len(parts) == len(node.input):
        return False
    inlined.results = parts
    if len(parts) > 1:
        inlined.results = inlined.emit("Concat", *parts, **attributes(node))
    return True


def _split(graph: Graph, node: onnx.NodeProto, inlined: Inlined) -> bool:
    """Without the parts that have no elements."""
    shapes = [graph.shapes.get(name) for name in node.output]
    if None in shapes or not any(0 in (shape or ()) for shape in shapes):
        return False
    axis = attributes(node).get("axis", 0)
    sizes = [shape[axis] for shape in shapes if shape and 0 not in shape]
    parts = [node.input[0]] if len(sizes) == 1 else inlined.split(node.input[0], axis, sizes)
    dtype = graph.dtypes[node.input[0]]
    inlined.results = [
        graph.add_constant("nothing", np.zeros(shape, dtype))
        if shape is not None and 0 in shape
        else parts.pop(0)
        for shape in shapes
    ]
    return True


def _scatter(graph: Graph, node: onnx.NodeProto, inlined: Inlined) -> bool:
    """Without updates nothing is written."""
    if 0 not in graph.shapes.get(node.input[1], ()):
        return False
    inlined.results = [node.input[0]]
    return True


def _padded(graph: Graph, inlined: Inlined, name: str, pads: list[int]) -> list[str]:
    if graph.opset < PADS_INPUT_SINCE:
        return inlined.emit("Pad", name, pads=pads)
    return inlined.emit("Pad", name, graph.add_constant("pads", np.array(pads)))


_SIZED: dict[str, Callable[[Graph, onnx.NodeProto, Inlined], bool]] = {
    "Compress": _compress,
    "Concat": _concat,
    "MaxUnpool": _max_unpool,
    "Split": _split,
    **dict.fromkeys(("Scatter", "ScatterElements", "ScatterND"), _scatter),
}
_RULED = frozenset({*_SIZED, *_BODIES, *_HELD})
# Operators that others, or their values (`constants.py`), stand for where that can be.
RESOLVED = _RULED | {"NonMaxSuppression", "NonZero", "Unique"}
