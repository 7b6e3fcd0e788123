"""Recurrent layers, unrolled over their steps: every form of them, where no kernel serves.

The inputs of all steps are projected by one product; each step adds the recurrent one. What a
sequence has beyond its length keeps the state, and gives zeros.
"""

from collections.abc import Sequence

import numpy as np

from odtc.frontend.normalize.control.unrolled import add_unrolled
from odtc.frontend.operators.forms import concat, reshape, split_evenly
from odtc.frontend.operators.operator import Emit, Node
from odtc.frontend.operators.recurrent_layers import recurrent_activations
from odtc.frontend.operators.recurrent_layers.recurrent_cells import KINDS, Direction, State

# Nodes of a step of the smallest cell: a product, a sum and an activation.
_LEAST_NODES = 3
# Inputs: X, W, R, B, sequence_lens, initial_h, initial_c, P.
BIAS, LENGTHS, INITIAL, PEEPHOLES = 3, 4, 5, 7


def directions(node: Node) -> int:
    """How many directions a layer has."""
    return 2 if node.attrs.get("direction") == "bidirectional" else 1


def unroll(node: Node, emit: Emit) -> list[str]:
    """The outputs: all hidden states, and the last of each state."""
    batch_first = bool(node.attrs.get("layout"))
    steps, batch = node.shape()[:2][:: -1 if batch_first else 1]
    add_unrolled(node.graph, node.proto, steps * directions(node), _LEAST_NODES)
    data = emit("Transpose", node.inputs[0], perm=[1, 0, 2]) if batch_first else node.inputs[0]
    flat = reshape(emit, data, steps * batch, node.shape()[2])
    count, hidden = directions(node), node.shape(2)[2]
    masks = _masks(node, emit, steps, batch)
    results = [
        _run(node, emit, direction, initial, _project(node, emit, at, flat, steps), masks, at)
        for at, (direction, initial) in enumerate(_all_directions(node, emit, count))
    ]
    hidden_states = [
        reshape(emit, concat(emit, outputs, 0), steps, 1, batch, hidden) for outputs, _ in results
    ]
    last = [
        concat(
            emit, [reshape(emit, state[slot] or "", 1, batch, hidden) for _, state in results], 0
        )
        for slot in range(KINDS[node.proto.op_type].states)
    ]
    everything = concat(emit, hidden_states, 1)
    if batch_first:
        everything = emit("Transpose", everything, perm=[2, 0, 1, 3])
        last = [emit("Transpose", name, perm=[1, 0, 2]) for name in last]
    return [everything, *last]


def _run(
    node: Node,
    emit: Emit,
    direction: Direction,
    state: State,
    inputs: Sequence[str],
    masks: Sequence[str | None],
    at: int,
) -> tuple[list[str], State]:
    """The hidden state of each step, in the order of time, and the last states."""
    step = KINDS[node.proto.op_type].cell(emit, direction)
    backwards = at == 1 or node.attrs.get("direction") == "reverse"
    order = range(len(inputs))[::-1] if backwards else range(len(inputs))
    outputs = [""] * len(inputs)
    for time in order:
        new, mask = step(inputs[time], state), masks[time]
        if mask is None:
            state, outputs[time] = new, new[0]
            continue
        outputs[time] = emit("Where", mask, new[0], 0.0)
        state = tuple(
            emit("Where", mask, fresh, 0.0 if old is None else old)
            for fresh, old in zip(new, state, strict=True)
        )
    return outputs, state


def _masks(node: Node, emit: Emit, steps: int, batch: int) -> list[str | None]:
    """For each step, which sequences [batch, 1] have it; None where all do."""
    if not node.has(LENGTHS):
        return [None] * steps
    lengths = node.constant(LENGTHS)
    if lengths is None:
        column = reshape(emit, node.inputs[LENGTHS], batch, 1)
        limit = np.dtype(node.dtype(LENGTHS)).type
        return [emit("Greater", column, limit(time)) for time in range(steps)]
    running = [(lengths > time)[:, None] for time in range(steps)]
    return [None if m.all() else node.graph.add_constant("mask", m) for m in running]


def _project(node: Node, emit: Emit, at: int, flat: str, steps: int) -> Sequence[str]:
    """The inputs [batch, gates * hidden] of all steps of a direction, by one product."""
    gates, inputs = node.shape(1)[1:]
    weight = _part(node, emit, 1, at, gates, inputs)
    projected = emit("MatMul", flat, emit("Transpose", weight, perm=[1, 0]))
    if node.has(BIAS):
        first, second = _biases(node, emit, at)
        bias = first if _bias_apart(node) else emit("Add", first, second)
        projected = emit("Add", projected, bias)
    batch = node.shape()[0 if node.attrs.get("layout") else 1]
    return split_evenly(node, emit, projected, 0, steps, batch)


def _bias_apart(node: Node) -> bool:
    """Whether the reset gate scales the recurrent bias, so that it is no part of the input."""
    return bool(node.attrs.get("linear_before_reset"))


def _biases(node: Node, emit: Emit, at: int) -> Sequence[str]:
    gates = node.shape(1)[1]
    return split_evenly(node, emit, _part(node, emit, BIAS, at, 2 * gates), 0, 2, gates)


def _part(node: Node, emit: Emit, slot: int, at: int, *shape: int) -> str:
    """The part of an input for a direction."""
    parts = split_evenly(node, emit, node.inputs[slot], 0, directions(node), 1)
    return reshape(emit, parts[at], *shape)


def _all_directions(node: Node, emit: Emit, count: int) -> list[tuple[Direction, State]]:
    kind = KINDS[node.proto.op_type]
    gates, hidden = node.shape(2)[1:]
    acts = recurrent_activations.activations(node, emit, kind.activations, count)
    apart = node.has(BIAS) and _bias_apart(node)
    return [
        (
            Direction(
                node,
                hidden,
                _part(node, emit, 2, at, gates, hidden),
                _biases(node, emit, at)[1] if apart else None,
                _part(node, emit, PEEPHOLES, at, 3 * hidden) if node.has(PEEPHOLES) else None,
                acts[at],
            ),
            tuple(_initial(node, emit, INITIAL + slot, at) for slot in range(kind.states)),
        )
        for at in range(count)
    ]


def _initial(node: Node, emit: Emit, slot: int, at: int) -> str | None:
    """A direction's initial state; None where it is zeros."""
    value = node.constant(slot)
    if not node.has(slot) or (value is not None and not value.any()):
        return None
    name, shape = node.inputs[slot], node.shape(slot)
    if node.attrs.get("layout"):
        name, shape = emit("Transpose", name, perm=[1, 0, 2]), (shape[1], shape[0], shape[2])
    parts = split_evenly(node, emit, name, 0, directions(node), 1)
    return reshape(emit, parts[at], *shape[1:])
