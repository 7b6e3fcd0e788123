"""Recurrent layers over whole sequences, and their gradients, against PyTorch in double precision.

The reference goes through ONNX's cells a step at a time, and PyTorch differentiates it.
"""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
import tvm
from hypothesis import example, given, settings
from hypothesis import strategies as st

from benchmarks.reference.recurrent import RECURRENT
from odtc.backends.kernels.product.tile import machine_of
from odtc.backends.kernels.recurrent.backward import recurrent_gradient
from odtc.backends.kernels.recurrent.forward import recurrent_kernel
from odtc.backends.kernels.recurrent.parts import RecurrentLayer
from odtc.backends.vector_math import register_vector_math
from odtc.dialect.sequences.cells import CELLS
from tests.fast import examples, fast_if
from tests.host import loaded
from tests.numeric.conftest import relative_error

ONNX = {"gru": "GRU", "gru-after": "GRU", "lstm": "LSTM", "relu": "RNN", "tanh": "RNN"}
Arrays = list[np.ndarray]


def run(kernel: tvm.tirx.PrimFunc, tensors: Sequence[np.ndarray], shapes: Sequence) -> Arrays:
    register_vector_math()
    module = loaded(tvm.IRModule({"main": kernel.with_attr("global_symbol", "main")}))
    results = [tvm.runtime.tensor(np.full(shape, np.nan, np.float32)) for shape in shapes]
    module["main"](*map(tvm.runtime.tensor, tensors), *results)
    return [result.numpy() for result in results]


class Drawn:
    """A layer with tensors, and what the reference makes of them."""

    def __init__(self, layer: RecurrentLayer, seed: int) -> None:
        rng = np.random.default_rng(seed)
        cell = CELLS[layer.cell]
        gates = cell.gates * layer.hidden
        state, sequence = (layer.batch, layer.hidden), (layer.steps, layer.batch, layer.hidden)

        def draw(*shape: int) -> np.ndarray:
            return rng.standard_normal(shape).astype(np.float32)

        self.layer, self.cell, self.results = layer, cell, [sequence, *[state] * cell.states]
        self.x = draw(layer.steps, layer.batch, gates)
        self.weights = draw(gates, layer.hidden) / layer.hidden**0.5
        self.bias = [draw(gates)] if cell.has_bias else []
        self.states = [draw(*state) for _ in range(cell.states)]
        ends = rng.integers(0, layer.steps + 1, layer.batch).astype(np.int32)
        self.lengths = [ends] if layer.ragged else []
        self.adjoints = [draw(*shape) for shape in self.results]

    def reference(self) -> tuple[Arrays, Arrays]:
        """The results, and the gradients of all float operands."""
        attrs = {
            "direction": "reverse" if self.layer.reverse else "forward",
            "linear_before_reset": int(self.layer.cell == "gru-after"),
        }
        if ONNX[self.layer.cell] == "RNN":
            attrs["activations"] = [self.layer.cell.capitalize()]
        arrays = [self.x, self.weights, *self.bias, *self.states]
        x, weights, *rest = (torch.tensor(a.astype(np.float64), requires_grad=True) for a in arrays)
        states = rest[len(self.bias) :]
        zeros = torch.zeros(len(weights), dtype=torch.float64)
        y, *last = RECURRENT[ONNX[self.layer.cell]](
            attrs,
            x,
            torch.eye(len(weights), dtype=torch.float64)[None],
            weights[None],
            torch.cat([zeros, rest[0] if self.bias else zeros])[None],
            torch.tensor(self.lengths[0]) if self.lengths else None,
            *(state[None] for state in states),
        )
        results = [y[:, 0], *(state[0] for state in last)]
        total = sum(
            (r * torch.tensor(a)).sum() for r, a in zip(results, self.adjoints, strict=True)
        )
        gradients = torch.autograd.grad(total, [x, weights, *rest])
        return [r.detach().numpy() for r in results], [g.numpy() for g in gradients]

    def forward(self, lanes: int, *, saves: bool) -> Arrays:
        """The results of the kernel, and what it saves."""
        widths = self.cell.saved if saves else ()
        steps, batch, hidden = self.results[0]
        operands = [self.x, self.weights, *self.bias, *self.states, *self.lengths]
        return run(
            recurrent_kernel(self.layer, machine_of(32 * lanes), saves=saves),
            operands,
            [*self.results, *((steps, batch, width * hidden) for width in widths)],
        )

    def backward(self, lanes: int, y: np.ndarray, saved: Arrays) -> Arrays:
        """Runs the gradient rule on the kernel's results."""
        steps, batch, hidden = self.results[0]
        dtypes = [str(each.dtype) for each in (y, *saved)]
        widths = (self.cell.gates, 1, *self.cell.extra)
        dx, old, *rest = run(
            recurrent_gradient(self.layer, dtypes, machine_of(32 * lanes)),
            [*self.adjoints, self.weights, self.states[0], y, *saved, *self.lengths],
            [*((steps, batch, width * hidden) for width in widths), *self.results[1:]],
        )
        extra, states = rest[: -self.cell.states], rest[-self.cell.states :]
        seen = extra[0] if self.bias else dx
        weights = np.einsum("tbg,tbh->gh", seen.astype(np.float64), old)
        if self.layer.cell == "gru":
            last = np.einsum("tbg,tbh->gh", dx[..., 2 * hidden :].astype(np.float64), extra[0])
            weights[2 * hidden :] = last
        return [dx, weights, *([seen.sum((0, 1))] if self.bias else []), *states]


def check(found: Arrays, expected: Arrays, bound: float) -> None:
    for value, reference in zip(found, expected, strict=True):
        assert relative_error(value, reference) < bound


@pytest.mark.parametrize("cell", fast_if(lambda cell: cell != "gru", CELLS))
@settings(max_examples=examples(6), deadline=None)
@given(
    sizes=st.tuples(st.integers(1, 5), st.integers(1, 9), st.integers(1, 40)),
    lanes=st.sampled_from([4, 16]),
    reverse=st.booleans(),
    ragged=st.booleans(),
    seed=st.integers(0, 99),
)
# More rows than a tile, columns that its panels overlap, work for two threads.
@example(sizes=(3, 27, 72), lanes=16, reverse=True, ragged=True, seed=0)
def test_values_and_gradients(cell, sizes, lanes, reverse, ragged, seed) -> None:
    drawn = Drawn(RecurrentLayer(cell, *sizes, reverse, ragged), seed)
    expected, gradients = drawn.reference()
    count = len(expected)
    results = drawn.forward(lanes, saves=True)
    check(results[:count], expected, 1e-5)
    check(drawn.backward(lanes, results[0], results[count:]), gradients, 5e-5)
    plain = drawn.forward(lanes, saves=False)
    for one, other in zip(plain, results[:count], strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("cell", CELLS)
def test_gradients_from_half_precision(cell: str) -> None:
    """Saved tensors may be stored in half precision."""
    drawn = Drawn(RecurrentLayer(cell, 4, 3, 20, ragged=True), 1)
    expected, gradients = drawn.reference()
    y, *saved = (np.nan_to_num(each).astype(np.float16) for each in drawn.forward(16, saves=True))
    check(drawn.backward(16, y, saved[len(expected) - 1 :]), gradients, 5e-3)
