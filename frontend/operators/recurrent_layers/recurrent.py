"""Recurrent layers.

Where there is a kernel for a layer's cell, a node is taken apart into one for each direction, and
each becomes two operators of Relax: a product for the inputs of all steps, and a sequence. All
other layers are unrolled.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.dialect.sequences.cells import CELLS
from odtc.dialect.sequences.recurrent import recurrent
from odtc.frontend.operators.forms import concat, split_evenly
from odtc.frontend.operators.operator import Emit, Node, Operator
from odtc.frontend.operators.recurrent_layers import recurrent_activations
from odtc.frontend.operators.recurrent_layers.recurrent_cells import KINDS
from odtc.frontend.operators.recurrent_layers.recurrent_unrolled import (
    BIAS,
    INITIAL,
    LENGTHS,
    PEEPHOLES,
    directions,
    unroll,
)

_W, _R = 1, 2
# What the nodes of all directions have in common.
_KEPT = ("hidden_size", "linear_before_reset")
# By operator and activations of a direction.
_KERNELS = {
    ("GRU", "sigmoid", "tanh"): "gru",
    ("LSTM", "sigmoid", "tanh", "tanh"): "lstm",
    ("RNN", "relu"): "relu",
    ("RNN", "tanh"): "tanh",
}


def _supported(node: Node) -> str:
    """The inputs' shapes must be known; activations are those of ONNX with a gradient."""
    if any(name not in node.graph.shapes for name in node.inputs if name):
        return "the inputs' shapes are not static"
    listed = _activations(node)
    every = [name for names in listed for name in names]
    wanted = directions(node) * len(KINDS[node.proto.op_type].activations)
    if len(every) != wanted:
        return f"it lists {len(every)} activations, not {wanted}"
    unknown = [name for name in every if name.lower() not in recurrent_activations.FORMS]
    return f"the activation {unknown[0]!r} is not supported" if unknown else _misfit(node)


def _misfit(node: Node) -> str:
    """Which input's shape does not fit to the others; nothing where all do."""
    if any(node.rank(slot) != 3 for slot in (0, _W, _R)):
        return "X, W and R must have three dimensions"
    first = bool(node.attrs.get("layout"))
    batch, count = node.shape()[0 if first else 1], directions(node)
    inputs, hidden = node.shape()[2], node.shape(_R)[2]
    gates = KINDS[node.proto.op_type].gates * hidden
    # States of one sample serve all of them.
    states = [(n, count, hidden) if first else (count, n, hidden) for n in (batch, 1)]
    expected = {
        _W: [(count, gates, inputs)],
        _R: [(count, gates, hidden)],
        BIAS: [(count, 2 * gates)],
        LENGTHS: [(batch,)],
        INITIAL: states,
        INITIAL + 1: states,
        PEEPHOLES: [(count, 3 * hidden)],
    }
    for slot, shapes in expected.items():
        if node.has(slot) and node.shape(slot) not in shapes:
            found, wanted = list(node.shape(slot)), list(shapes[0])
            return f"the shape of {node.inputs[slot]!r} is {found}, not {wanted}"
    return ""


def _activations(node: Node) -> list[list[str]]:
    """Names of the activations of each direction."""
    default = KINDS[node.proto.op_type].activations
    listed = recurrent_activations.names(node, default, directions(node))
    return [listed[at : at + len(default)] for at in range(0, len(listed), len(default))]


def _kernels(node: Node) -> list[str]:
    """The kernel's cell for each direction; nothing where the layer is to be unrolled.

    Kernels have the usual activations, no clipping, no peepholes and no coupled gates, in float32.
    A single step is as well unrolled.
    """
    attrs, steps = node.attrs, node.shape()[1 if node.attrs.get("layout") else 0]
    unusual = "clip" in attrs or attrs.get("input_forget") or node.has(PEEPHOLES)
    if unusual or steps == 1 or node.dtype() != "float32":
        return []
    after = "-after" if attrs.get("linear_before_reset") else ""
    found = [
        _KERNELS.get((node.proto.op_type, *map(str.lower, names))) for names in _activations(node)
    ]
    return [] if None in found else [f"{name}{after}" for name in found]


def _expand(node: Node, emit: Emit) -> Sequence[str] | None:
    """One node for each direction, or for each step; None where it is of one direction."""
    if not _kernels(node):
        return unroll(node, emit)
    if directions(node) == 1 and not node.attrs.get("layout"):
        return None
    return _by_direction(node, emit)


def _by_direction(node: Node, emit: Emit) -> list[str]:
    """Nodes of one direction, with time as the first dimension."""
    states = KINDS[node.proto.op_type].states
    results = [
        emit.several(
            node.proto.op_type,
            1 + states,
            _turned(node, emit, node.inputs[0], 1, 0, 2),
            *(_part(node, emit, slot, at) for slot in (_W, _R, BIAS)),
            node.inputs[LENGTHS] if node.has(LENGTHS) else None,
            *(_part(node, emit, INITIAL + slot, at) for slot in range(states)),
            **_attributes(node, at),
        )
        for at in range(directions(node))
    ]
    everything, *last = (
        concat(emit, parts, 0 if slot else 1)
        for slot, parts in enumerate(zip(*results, strict=True))
    )
    return [
        _turned(node, emit, everything, 2, 0, 1, 3),
        *(_turned(node, emit, state, 1, 0, 2) for state in last),
    ]


def _attributes(node: Node, at: int) -> dict[str, Any]:
    """Attributes of the node of a direction."""
    backwards = at == 1 or node.attrs.get("direction") == "reverse"
    kept = {name: node.attrs[name] for name in _KEPT if name in node.attrs}
    direction = "reverse" if backwards else "forward"
    return {**kept, "direction": direction, "activations": _activations(node)[at]}


def _turned(node: Node, emit: Emit, name: str, *axes: int) -> str:
    """A tensor with its batch where it is usual."""
    return emit("Transpose", name, perm=list(axes)) if node.attrs.get("layout") else name


def _part(node: Node, emit: Emit, slot: int, at: int) -> str | None:
    """The part of an input for a direction; None where it is left out."""
    if not node.has(slot):
        return None
    name = node.inputs[slot]
    if slot >= INITIAL:
        name = _turned(node, emit, name, 1, 0, 2)
    return split_evenly(node, emit, name, 0, directions(node), 1)[at]


def _convert(builder: relax.BlockBuilder, node: Node, inputs: Sequence[Any]) -> list[relax.Expr]:
    """A node of one direction: the product of all steps' inputs, then the sequence."""
    _, weights, recurrent_weights, bias, lengths, *states = [*inputs, *[None] * 7][:7]
    (name,), (steps, batch, _) = _kernels(node), node.shape()
    cell, hidden = CELLS[name], node.shape(_R)[2]
    gates = cell.gates * hidden
    first, *second = _biases(builder, bias, gates, apart=cell.has_bias)
    x = _project(builder, inputs[0], weights, first)
    zeros = relax.const(np.zeros((batch, hidden), np.float32))
    given = [
        zeros if state is None else _spread(builder, state, batch, hidden)
        for state in states[: cell.states]
    ]
    flat = builder.emit(R.reshape(recurrent_weights, (gates, hidden)))
    known = node.constant(LENGTHS)
    ends = []
    if lengths is not None and (known is None or (known < steps).any()):
        ends = [builder.emit(R.reshape(lengths, (batch,)))]
    reverse = node.attrs.get("direction") == "reverse"
    sequence = recurrent(x, flat, *second, *given, *ends, cell=name, reverse=reverse, saves=False)
    found = builder.emit(sequence)
    y, *last = (relax.TupleGetItem(found, slot) for slot in range(1 + cell.states))
    return [
        R.reshape(builder.emit(y), (steps, 1, batch, hidden)),
        *(R.reshape(builder.emit(state), (1, batch, hidden)) for state in last),
    ]


def _spread(builder: relax.BlockBuilder, state: relax.Expr, batch: int, hidden: int) -> relax.Var:
    """The first state of every sample; one may be given for all."""
    rows = int(state.ty.shape[1])
    flat = builder.emit(R.reshape(state, (rows, hidden)))
    return flat if rows == batch else builder.emit(R.broadcast_to(flat, (batch, hidden)))


def _project(
    builder: relax.BlockBuilder, data: relax.Expr, weights: relax.Expr, bias: relax.Expr
) -> relax.Var:
    """The inputs `[steps, batch, gates * hidden]` of all steps, by one product."""
    (steps, batch, width), gates = (int(size) for size in data.ty.shape), int(bias.ty.shape[0])
    flat = builder.emit(R.reshape(data, (steps * batch, width)))
    matrix = builder.emit(R.reshape(weights, (gates, width)))
    projected = builder.emit(R.matmul(flat, builder.emit(R.permute_dims(matrix))))
    moved = builder.emit(R.add(projected, bias))
    return builder.emit(R.reshape(moved, (steps, batch, gates)))


def _biases(
    builder: relax.BlockBuilder, bias: relax.Expr | None, gates: int, *, apart: bool
) -> list[relax.Expr]:
    """That of the inputs and that of the states, or the sum of both."""
    count = 2 if apart else 1
    if bias is None:
        return [relax.const(np.zeros(gates, np.float32))] * count
    if not apart:
        # As a reduction: a plain sum would be fused into the product that it is added to.
        both = builder.emit(R.reshape(bias, (2, gates)))
        return [builder.emit(R.sum(both, 0))]
    parts = builder.emit(R.split(builder.emit(R.reshape(bias, (2 * gates,))), 2))
    return [builder.emit(relax.TupleGetItem(parts, slot)) for slot in range(count)]


_RECURRENT = Operator(condition=_supported, expand=_expand, convert=_convert)

OPERATORS: dict[str, Operator] = {"GRU": _RECURRENT, "LSTM": _RECURRENT, "RNN": _RECURRENT}
