"""Puts static operators in the place of those whose outputs no shape inference could know.

That are the control flow and the sequences, and operators whose output is as large as a constant
input says. What cannot be resolved is left, and refused later with the reason.
"""

from collections.abc import Callable

import numpy as np
import onnx

from odtc.frontend.graph import Graph, attributes
from odtc.frontend.normalize import sequences
from odtc.frontend.normalize.sequences import Held
from odtc.frontend.normalize.subgraphs import Inlined, inline_if, inline_loop, inline_scan, rename

_BODIES = {"If": inline_if, "Loop": inline_loop, "Scan": inline_scan}
# Operators that this puts others in the place of, where it can.
RESOLVED = frozenset({"Compress", *_BODIES, *sequences.RULES})
IsWeight = Callable[[np.ndarray], bool]


def resolve(graph: Graph, is_weight: IsWeight) -> bool:
    """Resolves what can be resolved now; tells if anything changed.

    Args:
        graph: constants folded and shapes inferred; both have to be done again after a change.
        is_weight: whether an initializer of a body is to be trained.
    """
    alias: dict[str, str] = {}
    held: Held = {}
    nodes: list[onnx.NodeProto] = []
    for old_node in graph.nodes:
        node = rename(old_node, alias)
        inlined = Inlined(graph, node.output[0])
        if not _resolved(graph, node, inlined, held, is_weight):
            nodes.append(node)
            continue
        nodes.extend(inlined.nodes)
        alias |= {old: new for old, new in zip(node.output, inlined.results, strict=False) if old}
    changed = len(nodes) != len(graph.nodes) or bool(alias)
    graph.nodes = nodes
    graph.outputs = [alias.get(name, name) for name in graph.outputs]
    return changed


def _resolved(
    graph: Graph, node: onnx.NodeProto, inlined: Inlined, held: Held, is_weight: IsWeight
) -> bool:
    if node.op_type in _BODIES:
        return _BODIES[node.op_type](graph, node, inlined, is_weight)
    if node.op_type in sequences.RULES:
        return sequences.RULES[node.op_type](graph, node, inlined, held)
    return node.op_type == "Compress" and _compress(graph, node, inlined)


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
