"""The forward kernels of recurrent layers: one for a whole sequence.

Hochreiter and Schmidhuber, "Long short-term memory", 1997; Cho et al., "Learning phrase
representations using RNN encoder-decoder", 2014.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.product.tile import Machine
from odtc.backends.kernels.recurrent.parts import (
    LayerKernel,
    RecurrentLayer,
    Step,
    StepProduct,
    Units,
    each_sample,
    each_unit,
    fill,
)
from odtc.backends.kernels.rows.passes import row_kernel
from odtc.dialect.sequences.cells import CELLS


@dataclass(frozen=True)
class _Forward(LayerKernel):
    """The tensors of a forward kernel.

    Attributes:
        x: projected inputs, with all that is added to them.
        bias: what is added to the recurrent products, where it is no part of `x`.
        y: hidden states of all steps.
        states: the states; at the end, the last ones.
        saved: for the backward pass, or nothing.
    """

    x: tirx.Buffer
    bias: tirx.Buffer | None
    y: tirx.Buffer
    states: list[tirx.Buffer]
    saved: list[tirx.Buffer]

    def product(self, first: int, gates: int) -> StepProduct:
        """The product with the weights of some gates."""
        hidden = self.layer.hidden
        return StepProduct(
            self.layer.batch,
            hidden,
            gates * hidden,
            lambda k, p: self.weights[first * hidden + p, k],
            False,
            self.machine,
        )

    def multiply(self, product: StepProduct, state: tirx.Buffer) -> None:
        """Emits a product of a state."""
        product.multiply(lambda b, k: state[b, k], self.layer.hidden)

    def give(self, t: ir.Expr, b: ir.Expr, u: Units, hidden: ir.Expr) -> None:
        """Emits the stores of a new hidden state."""
        held = u.hold(hidden)
        T.buffer_store(self.states[0], held, [b, u.at()])
        T.buffer_store(self.y, held, [t, b, u.at()])

    def save(self, slot: int, t: ir.Expr, b: ir.Expr, at: ir.Expr, value: ir.Expr) -> None:
        """Emits the store of a value for the backward pass, if there is one."""
        if self.saved:
            T.buffer_store(self.saved[slot], value, [t, b, at])


def _rnn(run: _Forward, function: Callable[[ir.Expr], ir.Expr]) -> Step:
    product, (h,) = run.product(0, 1), run.states

    def step(t: ir.Expr) -> None:
        run.multiply(product, h)

        def body(b: ir.Expr, u: Units) -> None:
            run.give(t, b, u, function(product[b, u.at()] + run.x[t, b, u.at()]))

        run.each(t, 1, body)

    return step


def _lstm(run: _Forward) -> Step:
    product, (h, c) = run.product(0, 4), run.states

    def step(t: ir.Expr) -> None:
        run.multiply(product, h)

        def body(b: ir.Expr, u: Units) -> None:
            functions = (tirx.sigmoid, tirx.sigmoid, tirx.sigmoid, tirx.tanh)
            i, o, f, g = (
                u.hold(function(product[b, u.at(gate)] + run.x[t, b, u.at(gate)]))
                for gate, function in enumerate(functions)
            )
            old = u.hold(c[b, u.at()])
            for gate, value in enumerate((i, o, f, g)):
                run.save(0, t, b, u.at(gate), value)
            run.save(1, t, b, u.at(), old)
            new = u.hold(f * old + i * g)
            T.buffer_store(c, new, [b, u.at()])
            run.give(t, b, u, o * tirx.tanh(new))

        run.each(t, 4, body)

    return step


def _gru(run: _Forward) -> Step:
    """The reset gate scales the state, before its product."""
    gates, candidate, (h,) = run.product(0, 2), run.product(2, 1), run.states
    shape = (run.layer.batch, run.layer.hidden)
    reset, update = (T.sblock_alloc_buffer(shape, "float32") for _ in range(2))

    def step(t: ir.Expr) -> None:
        run.multiply(gates, h)

        def before(b: ir.Expr, u: Units) -> None:
            z, r = (
                u.hold(tirx.sigmoid(gates[b, u.at(gate)] + run.x[t, b, u.at(gate)]))
                for gate in range(2)
            )
            run.save(0, t, b, u.at(0), z)
            run.save(0, t, b, u.at(1), r)
            T.buffer_store(update, z, [b, u.at()])
            T.buffer_store(reset, r * h[b, u.at()], [b, u.at()])

        run.each(t, 2, before)
        run.multiply(candidate, reset)

        def after(b: ir.Expr, u: Units) -> None:
            n = u.hold(tirx.tanh(candidate[b, u.at()] + run.x[t, b, u.at(2)]))
            run.save(0, t, b, u.at(2), n)
            z = update[b, u.at()]
            run.give(t, b, u, (1.0 - z) * n + z * h[b, u.at()])

        run.each(t, 1, after)

    return step


def _gru_after(run: _Forward) -> Step:
    """The reset gate scales the product of the state, and the bias with it."""
    product, (h,), bias = run.product(0, 3), run.states, run.bias
    assert bias is not None

    def step(t: ir.Expr) -> None:
        run.multiply(product, h)

        def body(b: ir.Expr, u: Units) -> None:
            z, r = (
                u.hold(tirx.sigmoid(run.x[t, b, at] + (product[b, at] + bias[at])))
                for at in (u.at(0), u.at(1))
            )
            seen = u.hold(product[b, u.at(2)] + bias[u.at(2)])
            n = u.hold(tirx.tanh(run.x[t, b, u.at(2)] + r * seen))
            for gate, value in enumerate((z, r, n)):
                run.save(0, t, b, u.at(gate), value)
            run.save(1, t, b, u.at(), seen)
            run.give(t, b, u, (1.0 - z) * n + z * h[b, u.at()])

        run.each(t, 3, body)

    return step


_STEPS: dict[str, Callable[[_Forward], Step]] = {
    "gru": _gru,
    "gru-after": _gru_after,
    "lstm": _lstm,
    "relu": lambda run: _rnn(run, lambda x: tirx.max(x, 0.0)),
    "tanh": lambda run: _rnn(run, tirx.tanh),
}


def recurrent_kernel(layer: RecurrentLayer, machine: Machine, *, saves: bool) -> tirx.PrimFunc:
    """A kernel `(x, weights, [bias], states..., [lengths], y, last states..., saved...)`, float32.

    `x` are the inputs' projections `[steps, batch, gates * hidden]`. A sequence that has ended
    keeps its states, and gives zeros.

    Args:
        layer: what is computed.
        machine: the CPU.
        saves: whether the results have what the backward pass reads.
    """
    cell, gates = CELLS[layer.cell], CELLS[layer.cell].gates * layer.hidden
    with row_kernel("recurrent") as made:
        x = layer.buffer("x", cell.gates)
        weights = T.arg("weights", T.buffer((gates, layer.hidden)))
        bias = T.arg("bias", T.buffer((gates,))) if cell.has_bias else None
        first = [layer.state(f"first{slot}") for slot in range(cell.states)]
        lengths = layer.lengths()
        y = layer.buffer("y")
        states = [layer.state(f"last{slot}") for slot in range(cell.states)]
        widths = cell.saved if saves else ()
        saved = [layer.buffer(f"saved{slot}", width) for slot, width in enumerate(widths)]
        run = _Forward(layer, machine, weights, lengths, x, bias, y, states, saved)
        for source, target in zip(first, states, strict=True):
            fill(layer, target, lambda b, u, source=source: source[b, u.at()], machine.lanes)
        if layer.ragged:
            _clear(layer, y, machine.lanes)
        layer.walk(_STEPS[layer.cell](run), backwards=False)
    return made()


def _clear(layer: RecurrentLayer, y: tirx.Buffer, lanes: int) -> None:
    """Emits zeros for the steps that no sequence may have."""
    with T.serial(layer.steps) as t:

        def row(b: ir.Expr) -> None:
            each_unit(layer, lanes, lambda u: T.buffer_store(y, u.zero(), [t, b, u.at()]))

        each_sample(layer, layer.hidden, row)
