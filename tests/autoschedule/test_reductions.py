"""Scheduled reductions over any axes, against numpy in double precision."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import tvm
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from tvm import ir, s_tir, te, tirx, topi

from odtc.autoschedule.cpu import schedule_kernel
from odtc.autoschedule.reductions import vector_shape
from tests.fast import examples
from tests.host import HOST, loaded

Axes = tuple[int, ...]


def mean(x: te.Tensor, axes: Axes, keepdims: bool) -> te.Tensor:
    count = np.prod([int(x.shape[axis]) for axis in axes])
    return topi.multiply(topi.sum(x, axes, keepdims), te.const(1 / float(count), "float32"))


def squares(x: te.Tensor, axes: Axes, keepdims: bool) -> te.Tensor:
    return topi.sum(topi.multiply(x, x), axes, keepdims)


def centred(x: te.Tensor, axes: Axes, keepdims: bool) -> te.Tensor:
    """Reads a second tensor, which does not follow the reduced axes."""
    distance = topi.subtract(x, mean(x, axes, keepdims=True))
    return topi.sum(topi.multiply(distance, distance), axes, keepdims)


def last_weighed(x: te.Tensor, axes: Axes, keepdims: bool) -> te.Tensor:
    """Reads a second tensor along the last axis alone."""
    weights = te.compute(x.shape[-1:], lambda i: (i % 3).astype("float32"), name="weights")
    return topi.sum(topi.multiply(x, weights), axes, keepdims)


Make = Callable[[te.Tensor, Axes, bool], te.Tensor]
Reference = Callable[[np.ndarray, Axes, bool], np.ndarray]
KINDS: dict[str, tuple[Make, Reference]] = {
    "sum": (topi.sum, lambda x, axes, keep: x.sum(axes, keepdims=keep)),
    "max": (topi.max, lambda x, axes, keep: x.max(axes, keepdims=keep)),
    "min": (topi.min, lambda x, axes, keep: x.min(axes, keepdims=keep)),
    "prod": (topi.prod, lambda x, axes, keep: x.prod(axes, keepdims=keep)),
    "mean": (mean, lambda x, axes, keep: x.mean(axes, keepdims=keep)),
    "squares": (squares, lambda x, axes, keep: (x * x).sum(axes, keepdims=keep)),
    "centred": (
        centred,
        lambda x, axes, keep: np.square(x - x.mean(axes, keepdims=True)).sum(axes, keepdims=keep),
    ),
    "last-weighed": (
        last_weighed,
        lambda x, axes, keep: (x * (np.arange(x.shape[-1]) % 3)).sum(axes, keepdims=keep),
    ),
}


@st.composite
def reductions(draw) -> tuple[tuple[int, ...], Axes]:
    # Odd sizes, powers of two, and sizes with both in them.
    size = st.one_of(st.integers(1, 9), st.sampled_from([14, 16, 17, 28, 48, 49, 64, 96]))
    shape = tuple(draw(st.lists(size, min_size=1, max_size=4)))
    # A column is summed in one register: its rounding grows with its length.
    assume(math.prod(shape) <= 1 << 16)
    chosen = draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))
    return shape, tuple(sorted(chosen))


def run(function: tvm.tirx.PrimFunc, x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    module = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
    out = tvm.runtime.tensor(np.full(shape, np.nan, np.float32))
    loaded(module)["main"](tvm.runtime.tensor(x), out)
    return out.numpy()


def kernel(kind: str, shape: tuple[int, ...], axes: Axes, keepdims: bool = False):
    x = te.placeholder(shape, name="x")
    y = KINDS[kind][0](x, axes, keepdims)
    return te.create_prim_func([x, y]), tuple(int(size) for size in y.shape)


@pytest.mark.parametrize("lanes", [4, 16])
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(8), deadline=None)
@given(case=reductions(), keepdims=st.booleans(), seed=st.integers(0, 99))
# Enough work for two threads.
@example(case=((4, 9, 28, 28), (0, 2, 3)), keepdims=True, seed=0)
@example(case=((99, 288), (0,)), keepdims=False, seed=0)
def test_any_axes(
    kind: str, lanes: int, case: tuple[tuple[int, ...], Axes], keepdims: bool, seed: int
) -> None:
    shape, axes = case
    data = np.random.default_rng(seed).uniform(0.9, 1.1, shape).astype(np.float32)
    function, size = kernel(kind, shape, axes, keepdims)
    found = run(schedule_kernel(function, lanes), data, size)
    expected = KINDS[kind][1](data.astype(np.float64), axes, keepdims)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((64, 768), (1,)), ((4, 8, 56, 56), (0, 2, 3)), ((4, 8, 7, 7), (0, 2, 3)), ((4096,), (0,))],
)
def test_vectors_along_what_is_reduced(shape: tuple[int, ...], axes: Axes) -> None:
    """The sums are registers: no scratch memory, and no element is read by itself."""
    function, _ = kernel("squares", shape, axes)
    scheduled = schedule_kernel(function, 16)
    text = s_tir.Schedule(scheduled).mod.script()
    assert "T.vectorized(" in text
    assert "multiply[" not in text, "the squares are never stored"
    module = tvm.IRModule({"main": scheduled.with_attr("global_symbol", "main")})
    assert "AllocWorkspace" not in tvm.compile(module, HOST).mod.inspect_source("asm")


@pytest.mark.parametrize(
    ("size", "expected"),
    [(3136, (16, 7)), (768, (16, 8)), (1000, (8, 5)), (49, (7, 7)), (196, (14, 7)), (97, (1, 1))],
)
def test_vector_shapes(size: int, expected: tuple[int, int]) -> None:
    assert vector_shape(size, 16) == expected


def test_a_long_sum_keeps_its_digits() -> None:
    """A sum in one register would be off by some hundreds of units in the last place."""
    data = np.random.default_rng(0).uniform(0, 1, 1 << 20).astype(np.float32)
    function, size = kernel("sum", data.shape, (0,))
    found = run(schedule_kernel(function, 16), data, size)
    np.testing.assert_allclose(found, data.astype(np.float64).sum(), rtol=2e-6)


@pytest.mark.parametrize("value", [-math.inf, -1.0])
def test_an_extremum_that_starts_from_an_infinity(value: float) -> None:
    x = te.placeholder((3, 64), name="x")
    k = te.reduce_axis((0, 64), "k")

    def larger(a: ir.Expr, b: ir.Expr) -> ir.Expr:
        return tirx.max(a, b)

    largest = te.comm_reducer(larger, lambda dtype: tirx.const(-math.inf, dtype))
    y = te.compute((3,), lambda i: largest(x[i, k], axis=k), name="y")
    scheduled = schedule_kernel(te.create_prim_func([x, y]), 16)
    found = run(scheduled, np.full((3, 64), value, np.float32), (3,))
    np.testing.assert_array_equal(found, np.full(3, value))


def test_booleans_are_not_split() -> None:
    x = te.placeholder((3, 64), name="x")
    y = topi.all(topi.greater(x, 0.0), axis=1)
    scheduled = schedule_kernel(te.create_prim_func([x, y]), 16)
    module = tvm.IRModule({"main": scheduled.with_attr("global_symbol", "main")})
    data = np.ones((3, 64), np.float32)
    data[1, 63] = 0
    out = tvm.runtime.tensor(np.zeros(3, np.bool_))
    loaded(module)["main"](tvm.runtime.tensor(data), out)
    np.testing.assert_array_equal(out.numpy(), [True, False, True])
