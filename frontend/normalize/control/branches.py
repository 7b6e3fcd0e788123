"""An If whose condition depends on the data: both branches are computed, and one is selected.

What a branch reads is selected too: one that is not taken computes on ones and zeros. So what it
would make of the data, such as the logarithm of 0, reaches neither the results nor, multiplied by
the gradient 0, what it read.
"""

from collections.abc import Iterator

import numpy as np
import onnx

from odtc.frontend.graph import Graph, attributes, bodies_of, names_read
from odtc.frontend.normalize.control.subgraphs import Inlined

_BRANCHES = ("then_branch", "else_branch")
_DIVISIONS = ("Div", "Mod")
# The slot of the indices that they write to.
_WRITES = {"ScatterElements": 1, "ScatterND": 1, "Scatter": 1, "TensorScatter": 2}


def select_branches(graph: Graph) -> bool:
    """Puts both branches of each such If in its place; tells if there was any.

    Args:
        graph: constants folded and shapes inferred; both have to be done again after a change.
    """
    nodes: list[onnx.NodeProto] = []
    for node in graph.nodes:
        if node.op_type != "If" or branch_refusal(graph, node):
            nodes.append(node)
            continue
        nodes.extend(_selected(graph, node))
        graph.notes.append(
            f"{node.name or node.output[0]}: an If on data; both branches are computed, and one is "
            "selected"
        )
    changed = len(nodes) != len(graph.nodes)
    graph.nodes = nodes
    return changed


def branch_refusal(graph: Graph, node: onnx.NodeProto) -> str:
    """Why the branches of an If on data cannot both be computed; empty where they can."""
    shape = graph.shapes.get(node.input[0])
    if shape not in ((), (1,)):
        return "its condition is not a single truth value of known shape"
    unlike = [name for name in node.output if name and name not in graph.shapes]
    if unlike:
        return f"its condition depends on the data, and its branches give {unlike[0]!r} two shapes"
    for branch in _BRANCHES:
        body = attributes(node)[branch]
        for inner in _flattened(body):
            reason = _effect(graph, body, inner)
            if reason:
                return f"its condition depends on the data, and {reason} in its {branch}"
    return ""


def _flattened(body: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in body.node:
        yield node
        for inner in bodies_of(node):
            yield from _flattened(inner)


def _effect(graph: Graph, body: onnx.GraphProto, node: onnx.NodeProto) -> str:
    """A side effect of a node, or why it may not run on ones and zeros."""
    if node.op_type == "BatchNormalization":
        return "the statistics of a BatchNormalization would follow both branches"
    made = {inner.output[0]: inner for inner in _flattened(body)}
    stored = {tensor.name for tensor in body.initializer} | graph.constants.keys()

    def is_constant(name: str) -> bool:
        return name in stored or (name in made and made[name].op_type == "Constant")

    written = _WRITES.get(node.op_type)
    if written is not None and not is_constant(node.input[written]):
        return f"{node.op_type} writes where the data say"
    if node.op_type in _DIVISIONS and not is_constant(node.input[1]):
        captured = _captured(graph, body)
        if any(not graph.dtypes.get(name, "float32").startswith("float") for name in captured):
            return f"{node.op_type} may divide integers by 0"
    return ""


def _captured(graph: Graph, body: onnx.GraphProto) -> list[str]:
    """The tensors of the enclosing graph that a branch reads, constants aside."""
    own = {name for node in body.node for name in node.output}
    own |= {tensor.name for tensor in body.initializer}
    read = {name for node in body.node for name in names_read(node)}
    read |= {value.name for value in body.output}
    return sorted(read - own - graph.constants.keys())


def _selected(graph: Graph, node: onnx.NodeProto) -> list[onnx.NodeProto]:
    inlined = Inlined(graph, node.output[0])
    condition = node.input[0]
    if graph.shapes[condition]:
        condition = inlined.squeeze(condition, 0)
    results = []
    for branch in _BRANCHES:
        body = attributes(node)[branch]
        names = inlined.adopt(body)
        for name in _captured(graph, body):
            names[name] = _guarded(graph, inlined, condition, name, branch)
        results.append(inlined.body(body, names, f"{branch}::"))
    for name, *pair in zip(node.output, *results, strict=True):
        if name:
            inlined.emit("Where", condition, *pair)
            inlined.nodes[-1].output[0] = name
    return inlined.nodes


def _guarded(graph: Graph, inlined: Inlined, condition: str, name: str, branch: str) -> str:
    """A tensor where its branch is taken, else ones, or zeros of integers."""
    parameter = graph.parameters.get(name)
    dtype = np.dtype(graph.dtypes[name] if parameter is None else parameter.dtype)
    other = graph.add_constant("other", np.array(dtype.kind == "f", dtype))
    pair = (name, other) if branch == _BRANCHES[0] else (other, name)
    return inlined.emit("Where", condition, *pair)[0]
