"""One step of the recurrent cells, as the ONNX standard defines them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from odtc.frontend.operators.forms import split_axis, split_evenly
from odtc.frontend.operators.operator import Emit, Node

# The states of a layer, [batch, hidden] each; None is zeros.
State = tuple[str | None, ...]
# From the projected input of a step, [batch, gates * hidden], and the states to the new states.
Step = Callable[[str, State], tuple[str, ...]]
Activation = Callable[[str], str]


@dataclass(frozen=True)
class Direction:
    """The tensors of one direction of a layer.

    Attributes:
        node: the layer.
        hidden: size of a state.
        recurrent: weights [gates * hidden, hidden].
        recurrent_bias: [gates * hidden], where it is not part of the projected input.
        peepholes: the cell state's weights [3 * hidden] for the gates i, o and f.
        activations: in the order of the standard.
    """

    node: Node
    hidden: int
    recurrent: str
    recurrent_bias: str | None
    peepholes: str | None
    activations: Sequence[Activation]


def rnn(emit: Emit, layer: Direction) -> Step:
    """`h = f(x + R h)`."""
    transposed = emit("Transpose", layer.recurrent, perm=[1, 0])

    def step(x: str, state: State) -> tuple[str, ...]:
        (h,) = state
        total = x if h is None else emit("Add", x, emit("MatMul", h, transposed))
        return (layer.activations[0](_clip(emit, layer.node, total)),)

    return step


def lstm(emit: Emit, layer: Direction) -> Step:
    """Long short-term memory with peepholes (Gers and Schmidhuber, 2000)."""
    node, hidden = layer.node, layer.hidden
    f_of, g_of, h_of = layer.activations
    transposed = emit("Transpose", layer.recurrent, perm=[1, 0])
    coupled = bool(node.attrs.get("input_forget"))
    weights = (
        split_evenly(node, emit, layer.peepholes, 0, 3, hidden) if layer.peepholes else [None] * 3
    )

    def gate(x: str, weight: str | None, cell: str | None) -> str:
        seen = emit("Add", x, emit("Mul", weight, cell)) if weight and cell else x
        return f_of(_clip(emit, node, seen))

    def step(x: str, state: State) -> tuple[str, ...]:
        h, c = state
        total = x if h is None else emit("Add", x, emit("MatMul", h, transposed))
        x_i, x_o, x_f, x_c = split_evenly(node, emit, total, 1, 4, hidden)
        i = gate(x_i, weights[0], c)
        new = emit("Mul", i, g_of(_clip(emit, node, x_c)))
        if c is not None:
            f = emit("Sub", 1.0, i) if coupled else gate(x_f, weights[2], c)
            new = emit("Add", emit("Mul", f, c), new)
        o = gate(x_o, weights[1], new)
        return emit("Mul", o, h_of(new)), new

    return step


def gru(emit: Emit, layer: Direction) -> Step:
    """Gated recurrent units (Cho et al., 2014); `linear_before_reset` as in cuDNN."""
    if layer.node.attrs.get("linear_before_reset"):
        return _reset_after(emit, layer)
    return _reset_before(emit, layer)


def _reset_after(emit: Emit, layer: Direction) -> Step:
    node, hidden, bias = layer.node, layer.hidden, layer.recurrent_bias
    transposed = emit("Transpose", layer.recurrent, perm=[1, 0])

    def product(h: str | None) -> str | None:
        seen = None if h is None else emit("MatMul", h, transposed)
        return emit("Add", seen, bias) if seen and bias else seen or bias

    def step(x: str, state: State) -> tuple[str, ...]:
        (h,) = state
        x_gates, x_h = split_axis(node, emit, x, 1, [2 * hidden, hidden])
        seen = product(h)
        if seen is None:
            z, _ = _update_and_reset(emit, layer, x_gates)
            return (_blend(emit, layer, z, x_h, h),)
        axis = 1 if h is not None else -1
        seen_gates, seen_h = split_axis(node, emit, seen, axis, [2 * hidden, hidden])
        z, r = _update_and_reset(emit, layer, emit("Add", x_gates, seen_gates))
        x_h = emit("Add", x_h, emit("Mul", r, seen_h))
        return (_blend(emit, layer, z, x_h, h),)

    return step


def _reset_before(emit: Emit, layer: Direction) -> Step:
    node, hidden = layer.node, layer.hidden
    r_gates, r_h = (
        emit("Transpose", part, perm=[1, 0])
        for part in split_axis(node, emit, layer.recurrent, 0, [2 * hidden, hidden])
    )

    def step(x: str, state: State) -> tuple[str, ...]:
        (h,) = state
        x_gates, x_h = split_axis(node, emit, x, 1, [2 * hidden, hidden])
        if h is not None:
            x_gates = emit("Add", x_gates, emit("MatMul", h, r_gates))
        z, r = _update_and_reset(emit, layer, x_gates)
        if h is not None:
            x_h = emit("Add", x_h, emit("MatMul", emit("Mul", r, h), r_h))
        return (_blend(emit, layer, z, x_h, h),)

    return step


def _update_and_reset(emit: Emit, layer: Direction, gates: str) -> Sequence[str]:
    both = layer.activations[0](_clip(emit, layer.node, gates))
    return split_evenly(layer.node, emit, both, 1, 2, layer.hidden)


def _blend(emit: Emit, layer: Direction, z: str, candidate: str, h: str | None) -> str:
    new = layer.activations[1](_clip(emit, layer.node, candidate))
    kept = emit("Mul", emit("Sub", 1.0, z), new)
    return kept if h is None else emit("Add", kept, emit("Mul", z, h))


def _clip(emit: Emit, node: Node, name: str) -> str:
    limit = node.attrs.get("clip")
    if limit is None:
        return name
    if node.opset < 11:
        return emit("Clip", name, min=-limit, max=limit)
    return emit("Clip", name, -float(limit), float(limit))


@dataclass(frozen=True)
class Kind:
    """A recurrent operator.

    Attributes:
        gates: number of gates.
        states: number of states that it carries.
        activations: the defaults, in order.
        cell: its step.
    """

    gates: int
    states: int
    activations: tuple[str, ...]
    cell: Callable[[Emit, Direction], Step]


KINDS = {
    "GRU": Kind(3, 1, ("Sigmoid", "Tanh"), gru),
    "LSTM": Kind(4, 2, ("Sigmoid", "Tanh", "Tanh"), lstm),
    "RNN": Kind(1, 1, ("Tanh",), rnn),
}
