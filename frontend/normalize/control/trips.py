"""How often a Loop runs its body, where that is known when the model is compiled.

Exporters of Keras and TensorFlow have a body compute whether there is a further trip, from counters
that begin at a constant: `i + 1 < n and j + 1 < limit`. What only such counters have a part in is
followed from trip to trip.
"""

import numpy as np
import onnx
from onnx import numpy_helper

from odtc.frontend.graph import Graph, attributes, names_read, only
from odtc.frontend.normalize.constants import Values, evaluate_small

# What a loop may become; longer steps would take minutes to compile.
MOST_NODES = 10_000


def loop_refusal(graph: Graph, node: onnx.NodeProto) -> str:
    """Why a Loop cannot be unrolled; empty where it can."""
    found = trips_of(graph, node)
    return found if isinstance(found, str) else ""


def trips_of(graph: Graph, node: onnx.NodeProto) -> int | str:
    """The number of trips, or why it is not known or cannot be unrolled."""
    trips, condition = (*node.input, "", "")[:2]
    if condition and (condition not in graph.constants or not graph.constants[condition].all()):
        return "the condition to start must be constant and true"
    if trips and trips not in graph.constants:
        return "the number of trips must be constant"
    body: onnx.GraphProto = attributes(node)["body"]
    limit = only(graph, node, 0)
    most = MOST_NODES // max(len(body.node), 1)
    count = limit if _goes_on(body) else _counted(graph, node, body, limit, most)
    if count is None:
        return "it may end early, as its data say"
    if count > most:
        return f"its {count} trips would become {count * len(body.node)} nodes, over {MOST_NODES}"
    return count if count > 0 else "it has no trips"


def _goes_on(body: onnx.GraphProto) -> bool:
    """Whether a body only hands on the condition that it got, or gives a constant true."""
    made = {name: node for node in body.node for name in node.output}
    name = body.output[0].name
    while name in made and made[name].op_type in ("Identity", "Cast"):
        name = made[name].input[0]
    if name == body.input[1].name:
        return True
    values = {tensor.name: tensor for tensor in body.initializer}
    if name in made and made[name].op_type == "Constant":
        values[name] = attributes(made[name])["value"]
    return name in values and bool(numpy_helper.to_array(values[name]).all())


def _counted(
    graph: Graph, node: onnx.NodeProto, body: onnx.GraphProto, limit: int | None, most: int
) -> int | None:
    """The trips until the condition is false, at most one more than can be unrolled."""
    formal = [value.name for value in body.input]
    given = [value.name for value in body.output]
    needed = _needed(body, formal, given)
    nodes = [each for each in body.node if needed.intersection(each.output)]
    fixed = {tensor.name: numpy_helper.to_array(tensor) for tensor in body.initializer}
    read = {name for each in nodes for name in names_read(each)} | needed
    outside = {name: graph.constants[name] for name in read if name in graph.constants}
    state: list[np.ndarray | None] = [graph.constants.get(name) for name in node.input[2:]]
    for trip in range(min(most + 1, limit if limit is not None else most + 1)):
        actual = [np.array(trip), np.array(True), *state]
        values: Values = {**outside, **fixed}
        values |= {
            name: value
            for name, value in zip(formal, actual, strict=True)
            if name in needed and value is not None
        }
        for each in nodes:
            values |= evaluate_small(graph, each, values) or {}
        if given[0] not in values:
            return None
        if not values[given[0]].all():
            return trip + 1
        state = [values.get(name) for name in given[1 : len(formal) - 1]]
    return most + 1 if limit is None else limit


def _needed(body: onnx.GraphProto, formal: list[str], given: list[str]) -> set[str]:
    """Tensors of the body that the condition follows from, in this trip or a former one."""
    needed: set[str] = set()
    more = {given[0]}
    while not more <= needed:
        needed |= more
        for node in reversed(body.node):
            if needed.intersection(node.output):
                needed |= names_read(node)
        handed_on = zip(formal[2:], given[1:], strict=False)
        more = {new for old, new in handed_on if old in needed}
    return needed
