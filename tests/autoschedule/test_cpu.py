"""Schedules by rule change the loops of a kernel, never its values."""

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import s_tir, te, tirx, topi

from odtc.autoschedule import cpu
from odtc.autoschedule.cpu import ScheduleCpu, schedule_kernel
from tests.fast import examples
from tests.host import loaded
from tests.passes.memory.assigning import assign_kernel

Make = Callable[[te.Tensor], te.Tensor]
KERNELS: dict[str, Make] = {
    "elementwise": lambda x: topi.tanh(topi.exp(x)),
    "sum-last": lambda x: topi.sum(x, axis=2),
    "sum-first": lambda x: topi.sum(x, axis=0),
    "sum-all": topi.sum,
    "max-middle": lambda x: topi.max(x, axis=1),
    "softmax": lambda x: topi.nn.softmax(x, axis=-1),
    "log-softmax": lambda x: topi.nn.log_softmax(
        topi.reshape(x, (x.shape[0] * x.shape[1], x.shape[2]))
    ),
    "transpose": lambda x: topi.transpose(x, [2, 0, 1]),
    "sum-of-squares": lambda x: topi.sum(topi.multiply(x, x), axis=[0, 2]),
    "norm": lambda x: topi.sqrt(topi.sum(topi.multiply(x, x), axis=[1, 2])),
    "bias": lambda x: te.compute(x.shape, lambda i, j, k: x[i, j, k] + x[0, j, 0]),
    "bias-last": lambda x: te.compute(x.shape, lambda i, j, k: x[i, j, k] + x[0, 0, k]),
    "reshape": lambda x: topi.reshape(topi.exp(x), (x.shape[0] * x.shape[1], x.shape[2])),
    "concatenate": lambda x: topi.concatenate([x, topi.exp(x)], 1),
    "concatenate-last": lambda x: topi.concatenate([x, topi.exp(x)], 2),
    "pad": lambda x: topi.nn.pad(x, (0, 1, 2), (0, 0, 1)),
    "slice": lambda x: topi.strided_slice(x, [0, x.shape[1] // 2], [10, 9], [1, 1]),
    "flip": lambda x: topi.flip(x, 2),
    "roll": lambda x: te.compute(x.shape, lambda i, j, k: x[i, j, (k + 3) % x.shape[2]]),
    "gather": lambda x: te.compute(
        x.shape, lambda i, j, k: x[i, (x[0, 0, k] * 100).astype("int32") % x.shape[1], k]
    ),
    "chain": lambda x: topi.nn.relu(topi.add(topi.sum(x, axis=1, keepdims=True), x)),
}


def run(function: tvm.tirx.PrimFunc, x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    module = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
    out = tvm.runtime.tensor(np.zeros(shape, np.float32))
    loaded(module)["main"](tvm.runtime.tensor(x), out)
    return out.numpy()


@pytest.mark.parametrize("lanes", [4, 16])
@pytest.mark.parametrize("name", KERNELS)
@settings(max_examples=examples(6), deadline=None)
@given(shape=st.tuples(st.integers(1, 40), st.integers(1, 9), st.integers(1, 90)))
def test_values_stay(name: str, lanes: int, shape: tuple[int, int, int]) -> None:
    x = te.placeholder(shape, name="x")
    y = KERNELS[name](x)
    function = te.create_prim_func([x, y])
    data = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    size = tuple(int(extent) for extent in y.shape)
    expected = run(function, data, size)
    found = run(schedule_kernel(function, lanes), data, size)
    # Sums are taken in another order: their rounding grows with their length.
    rounding = 1e-5 * float(np.sqrt(data.size))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=rounding)


def loops_of(function: tvm.tirx.PrimFunc) -> str:
    return s_tir.Schedule(function).mod.script()


def test_a_large_chain_is_one_parallel_loop_of_vectors() -> None:
    x = te.placeholder((64, 1024), name="x")
    text = loops_of(schedule_kernel(te.create_prim_func([x, topi.tanh(topi.exp(x))]), 16))
    assert text.count("T.parallel(") == text.count("T.vectorized(") == 1
    assert text.count("T.sblock(") == 2, "the root, and the one loop"


def test_a_bias_keeps_the_loop_over_channels_apart() -> None:
    x, bias = te.placeholder((4, 64, 6400), name="x"), te.placeholder((4 * 64,), name="b")
    y = topi.nn.relu(topi.add(topi.reshape(x, (4, 64, 80, 80)), topi.reshape(bias, (4, 64, 1, 1))))
    text = loops_of(schedule_kernel(te.create_prim_func([x, bias, y]), 16))
    assert "T.parallel(256)" in text
    assert "range(400)" in text
    assert text.count("T.vectorized(16)") == text.count("T.parallel(") == 1


def test_what_is_left_of_a_row_is_a_loop_of_its_own() -> None:
    x = te.placeholder((30, 64, 49), name="x")
    y = te.compute(x.shape, lambda i, j, k: x[i, j, k] + x[0, j, 0])
    text = loops_of(schedule_kernel(te.create_prim_func([x, y]), 16))
    assert "T.vectorized(16)" in text
    assert "range(48, 49)" in text


def test_a_number_without_dimensions_leaves_a_row_whole() -> None:
    """As the share of a label in a mean of 37: TVM cannot cut such a loop."""
    x, share = te.placeholder((37,), name="x"), te.placeholder((), name="share")
    y = te.compute(x.shape, lambda i: x[i] * share())
    text = loops_of(schedule_kernel(te.create_prim_func([x, share, y]), 16))
    assert "range(T.int64(37))" in text or "range(37)" in text


def test_a_boolean_that_is_handed_on_within_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a chain is too long to be inlined: TVM cannot build that step as a vector."""
    monkeypatch.setattr(cpu, "LONGEST_INLINED", 0)
    x = te.placeholder((4, 64), name="x")
    positive = te.compute(x.shape, lambda i, j: x[i, j] > 0.0, name="positive")
    y = te.compute(x.shape, lambda i, j: tirx.Select(positive[i, j], x[i, j], -1.0), name="y")
    function = schedule_kernel(te.create_prim_func([x, y]), 16)
    data = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)
    np.testing.assert_array_equal(run(function, data, (4, 64)), np.where(data > 0, data, -1))


def test_a_small_kernel_stays_on_one_thread() -> None:
    x = te.placeholder((4, 16), name="x")
    assert "T.parallel" not in loops_of(schedule_kernel(te.create_prim_func([x, topi.exp(x)]), 16))


def test_a_kernel_with_its_own_schedule_is_left_alone() -> None:
    module = tvm.IRModule({"update": assign_kernel((8, 8))})
    scheduled = ScheduleCpu(lanes=16).run(module)
    tvm.ir.assert_structural_equal(scheduled["update"], module["update"])
