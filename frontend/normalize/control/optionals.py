"""Optionals as the tensor or sequence that they hold, where they surely hold one, or nothing."""

from collections.abc import Callable

import numpy as np
import onnx

from odtc.frontend.graph import Graph
from odtc.frontend.normalize.control.sequences import Held
from odtc.frontend.normalize.control.subgraphs import Inlined

Rule = Callable[[Graph, onnx.NodeProto, Inlined, Held], bool]


def _given(node: onnx.NodeProto) -> str:
    return node.input[0] if node.input else ""


def _pass_on(graph: Graph, node: onnx.NodeProto, inlined: Inlined, held: Held) -> bool:
    """Forwards the element of an optional to its readers."""
    name = _given(node)
    if name in held:
        held[node.output[0]] = held[name]
    elif name in graph.dtypes:
        inlined.results = [name]
    else:
        return False
    return True


def _has(graph: Graph, node: onnx.NodeProto, inlined: Inlined, held: Held) -> bool:
    """True of a tensor or a sequence, false of an input that is left out."""
    name = _given(node)
    if name and name not in held and name not in graph.dtypes:
        return False
    inlined.results = [graph.add_constant("has", np.array(bool(name)))]
    return True


RULES: dict[str, Rule] = {
    "Optional": _pass_on,
    "OptionalGetElement": _pass_on,
    "OptionalHasElement": _has,
}
