"""The backward kernels of recurrent layers: one for a whole sequence, from its last step on.

They give the adjoints of what enters the gates at every step. From these, large products make those
of the weights and the inputs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.places import index, load
from odtc.backends.kernels.product.tile import Machine
from odtc.backends.kernels.recurrent.parts import (
    Body,
    LayerKernel,
    RecurrentLayer,
    Step,
    StepProduct,
    Units,
    fill,
)
from odtc.backends.kernels.rows.passes import PARALLEL_ELEMENTS, row_kernel
from odtc.dialect.sequences.cells import CELLS


@dataclass(frozen=True)
class _Backward(LayerKernel):
    """The tensors of a backward kernel.

    Attributes:
        first: the first hidden state.
        y: hidden states of all steps.
        dy: their adjoints.
        saved: what the forward pass has saved.
        dx: adjoints of the projected inputs.
        old: the hidden states before each step.
        extra: another result: adjoints of the recurrent products, where they are not `dx`, or the
            old states as the reset gate scales them, where it does.
        carried: of each state, the adjoint that later steps give it, but for what comes through
            products of the hidden state.
    """

    first: tirx.Buffer
    y: tirx.Buffer
    dy: tirx.Buffer
    saved: list[tirx.Buffer]
    dx: tirx.Buffer
    old: tirx.Buffer
    extra: list[tirx.Buffer]
    carried: list[tirx.Buffer]

    def product(self, first: int, gates: int) -> StepProduct:
        """Returns the product from adjoints of gates to that of the state they depend on."""
        hidden = self.layer.hidden
        return StepProduct(
            self.layer.batch,
            gates * hidden,
            hidden,
            lambda k, p: self.weights[first * hidden + k, p],
            True,
            self.machine,
        )

    def multiply(
        self, product: StepProduct, t: ir.Expr, adjoint: tirx.Buffer, first: int = 0
    ) -> None:
        """Emits a product of a step's adjoints, from a gate on."""
        hidden = self.layer.hidden
        pitch = CELLS[self.layer.cell].gates * hidden
        product.multiply(lambda b, k: adjoint[t, b, first * hidden + k], pitch)

    def read(self, slot: int, t: ir.Expr, b: ir.Expr, u: Units, gate: int = 0) -> ir.Expr:
        """Values that were saved."""
        return load(self.saved[slot], [t, b, u.at(gate)])

    def adjoint(self, t: ir.Expr, b: ir.Expr, u: Units, onward: StepProduct) -> ir.Expr:
        """The adjoint of a step's hidden state."""
        later = onward[b, u.at()] + self.carried[0][b, u.at()]
        return u.hold(later + self.dy[t, b, u.at()])

    def give(self, t: ir.Expr, b: ir.Expr, u: Units, gate: int, value: ir.Expr) -> None:
        """Emits the store of a gate's adjoint."""
        T.buffer_store(self.dx, value, [t, b, u.at(gate)])

    def carry(self, slot: int, b: ir.Expr, u: Units, value: ir.Expr) -> None:
        """Emits the store of a state's adjoint for the step before."""
        T.buffer_store(self.carried[slot], value, [b, u.at()])

    def skip(self, t: ir.Expr, onward: StepProduct) -> Body:
        """Returns the body for a step that a sample lacks: it passes the state's adjoint on."""

        def body(b: ir.Expr, u: Units) -> None:
            self.carry(0, b, u, onward[b, u.at()] + self.carried[0][b, u.at()])
            for buffer in (self.dx, *self.extra):
                for gate in range(int(buffer.shape[2]) // u.hidden):
                    T.buffer_store(buffer, u.zero(), [t, b, u.at(gate)])

        return body


# From the tensors to what makes a step, and the product that a step ends with.
Cell = Callable[[_Backward], tuple[Step, StepProduct]]


def _rnn(slope: Callable[[ir.Expr, ir.Expr], ir.Expr]) -> Cell:
    """`slope(y, dh)` is the adjoint of what the activation was applied to."""

    def cell(run: _Backward) -> tuple[Step, StepProduct]:
        onward = run.product(0, 1)

        def step(t: ir.Expr) -> None:
            def body(b: ir.Expr, u: Units) -> None:
                dh = run.adjoint(t, b, u, onward)
                run.give(t, b, u, 0, slope(load(run.y, [t, b, u.at()]), dh))
                run.carry(0, b, u, u.zero())

            run.each(t, 1, body, run.skip(t, onward))
            run.multiply(onward, t, run.dx)

        return step, onward

    return cell


def _lstm(run: _Backward) -> tuple[Step, StepProduct]:
    onward = run.product(0, 4)

    def step(t: ir.Expr) -> None:
        def body(b: ir.Expr, u: Units) -> None:
            dh = run.adjoint(t, b, u, onward)
            i, o, f, g = (u.hold(run.read(0, t, b, u, gate)) for gate in range(4))
            old = u.hold(run.read(1, t, b, u))
            bent = u.hold(tirx.tanh(f * old + i * g))
            dc = u.hold(run.carried[1][b, u.at()] + dh * o * (1.0 - bent * bent))
            run.give(t, b, u, 0, dc * g * _bend(i))
            run.give(t, b, u, 1, dh * bent * _bend(o))
            run.give(t, b, u, 2, dc * old * _bend(f))
            run.give(t, b, u, 3, dc * i * (1.0 - g * g))
            run.carry(0, b, u, u.zero())
            run.carry(1, b, u, dc * f)

        run.each(t, 4, body, run.skip(t, onward))
        run.multiply(onward, t, run.dx)

    return step, onward


def _gru(run: _Backward) -> tuple[Step, StepProduct]:
    """The reset gate scales the state, before its product."""
    onward, candidate, (reset,) = run.product(0, 2), run.product(2, 1), run.extra

    def step(t: ir.Expr) -> None:
        def after(b: ir.Expr, u: Units) -> None:
            dh = run.adjoint(t, b, u, onward)
            z, n = (u.hold(run.read(0, t, b, u, gate)) for gate in (0, 2))
            run.give(t, b, u, 0, dh * (run.old[t, b, u.at()] - n) * _bend(z))
            run.give(t, b, u, 2, dh * (1.0 - z) * (1.0 - n * n))
            run.carry(0, b, u, dh * z)

        def before(b: ir.Expr, u: Units) -> None:
            r, old = u.hold(run.read(0, t, b, u, 1)), u.hold(run.old[t, b, u.at()])
            seen = candidate[b, u.at()]
            run.give(t, b, u, 1, seen * old * _bend(r))
            T.buffer_store(reset, r * old, [t, b, u.at()])
            run.carry(0, b, u, run.carried[0][b, u.at()] + seen * r)

        run.each(t, 3, after, run.skip(t, onward))
        run.multiply(candidate, t, run.dx, 2)
        run.each(t, 2, before)
        run.multiply(onward, t, run.dx)

    return step, onward


def _gru_after(run: _Backward) -> tuple[Step, StepProduct]:
    """The reset gate scales the product of the state."""
    onward, (dseen,) = run.product(0, 3), run.extra

    def step(t: ir.Expr) -> None:
        def body(b: ir.Expr, u: Units) -> None:
            dh = run.adjoint(t, b, u, onward)
            z, r, n = (u.hold(run.read(0, t, b, u, gate)) for gate in range(3))
            dz = u.hold(dh * (run.old[t, b, u.at()] - n) * _bend(z))
            dn = u.hold(dh * (1.0 - z) * (1.0 - n * n))
            dr = u.hold(dn * run.read(1, t, b, u) * _bend(r))
            for gate, (entering, seen) in enumerate(((dz, dz), (dr, dr), (dn, dn * r))):
                run.give(t, b, u, gate, entering)
                T.buffer_store(dseen, seen, [t, b, u.at(gate)])
            run.carry(0, b, u, dh * z)

        run.each(t, 3, body, run.skip(t, onward))
        run.multiply(onward, t, dseen)

    return step, onward


def _bend(sigmoid: ir.Expr) -> ir.Expr:
    """The slope of a sigmoid, from its value."""
    return sigmoid * (1.0 - sigmoid)


_CELLS: dict[str, Cell] = {
    "gru": _gru,
    "gru-after": _gru_after,
    "lstm": _lstm,
    "relu": _rnn(lambda y, dh: tirx.Select(y <= 0.0, dh * 0.0, dh)),
    "tanh": _rnn(lambda y, dh: dh * (1.0 - y * y)),
}


def recurrent_gradient(
    layer: RecurrentLayer, stored: Sequence[str], machine: Machine
) -> tirx.PrimFunc:
    """A kernel with the adjoints of a recurrent layer.

    Its arguments are `(dy, adjoints of last states..., weights, first hidden state, y, saved...,
    [lengths], dx, old, [extra], adjoints of first states...)`.

    Args:
        layer: what was computed.
        stored: dtypes of the hidden states and of what was saved; all else is float32.
        machine: the CPU.
    """
    cell, lanes = CELLS[layer.cell], machine.lanes
    with row_kernel("recurrent_gradient") as made:
        dy = layer.buffer("dy")
        last = [layer.state(f"last{slot}") for slot in range(cell.states)]
        weights = T.arg("weights", T.buffer((cell.gates * layer.hidden, layer.hidden)))
        first = layer.state("first")
        y, *saved = [
            layer.buffer(f"saved{slot}", width, dtype)
            for slot, (width, dtype) in enumerate(zip((1, *cell.saved), stored, strict=True))
        ]
        lengths = layer.lengths()
        dx, old = layer.buffer("dx", cell.gates), layer.buffer("old")
        extra = [layer.buffer("extra", width) for width in cell.extra]
        carried = [layer.state(f"first{slot}") for slot in range(cell.states)]
        run = _Backward(
            layer, machine, weights, lengths, first, y, dy, saved, dx, old, extra, carried
        )
        _remember(run)
        step, onward = _CELLS[layer.cell](run)
        for source, target in zip(last, carried, strict=True):
            fill(layer, target, lambda b, u, source=source: source[b, u.at()], lanes)
        onward.clear()
        layer.walk(step, backwards=True)
        hidden = carried[0]
        fill(layer, hidden, lambda b, u: hidden[b, u.at()] + onward[b, u.at()], lanes)
    return made()


def _remember(run: _Backward) -> None:
    """Emits the hidden states before each step.

    Where a step is the first of a sequence, that is the first state. Beyond the end of one it does
    not matter, as long as it is a number.
    """
    layer, total = run.layer, run.layer.steps * run.layer.batch
    with (T.parallel if total * layer.hidden >= PARALLEL_ELEMENTS else T.serial)(total) as at:
        t, b = at // layer.batch, at % layer.batch
        if layer.reverse:
            end = index(layer.steps) if run.lengths is None else run.lengths[b]
            is_first, before = t + 1 >= end, t + 1
        else:
            is_first, before = t == 0, t - 1

        def begin(b: ir.Expr, u: Units) -> None:
            T.buffer_store(run.old, run.first[b, u.at()], [t, b, u.at()])

        def go_on(b: ir.Expr, u: Units) -> None:
            T.buffer_store(run.old, load(run.y, [before, b, u.at()]), [t, b, u.at()])

        with T.If(is_first):
            with T.Then():
                run.units(b, begin)
            with T.Else():
                run.units(b, go_on)
