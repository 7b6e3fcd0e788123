"""The functions without library calls: their errors, their limits, and that there is no call."""

import math

import numpy as np
import pytest
import tvm
from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.autoschedule.cpu import schedule_kernel
from odtc.backends.targets import parse_target
from odtc.backends.vector_math import register_vector_math

# Function to its reference in double precision, where it is tried, and its error in units in the
# last place.
FUNCTIONS = {
    "exp": (np.exp, (-87, 88), 2.0),
    "log": (np.log, (1e-6, 1e6), 2.0),
    "erf": (np.vectorize(math.erf), (-5, 5), 8.0),
    "tanh": (np.tanh, (-10, 10), 8.0),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), (-20, 20), 4.0),
}
SPECIAL = [np.inf, -np.inf, np.nan, 0.0, -1.0, 1.0, 200.0, -200.0]
AT_SPECIAL = {
    "exp": [np.inf, 0, np.nan, 1, math.exp(-1), math.e, np.inf, 0],
    "log": [np.inf, np.nan, np.nan, -np.inf, np.nan, 0, math.log(200), np.nan],
    "erf": [1, -1, np.nan, 0, -math.erf(1), math.erf(1), 1, -1],
    "tanh": [1, -1, np.nan, 0, -math.tanh(1), math.tanh(1), 1, -1],
    "sigmoid": [1, 0, np.nan, 0.5, 1 / (1 + math.e), 1 / (1 + math.exp(-1)), 1, 0],
}


def compiled(name: str, size: int, target: str, dtype: str = "float32") -> tvm.runtime.Executable:
    x = te.placeholder((size,), dtype, name="x")
    y = te.compute((size,), lambda i: getattr(tirx, name)(x(i)), name="y")
    function = te.create_prim_func([x, y]).with_attr("global_symbol", "main")
    register_vector_math()
    tvm_target = parse_target(target).to_tvm()
    with tvm_target:
        return tvm.compile(tvm.IRModule({"main": schedule_kernel(function, 8)}), tvm_target)


def evaluated(name: str, x: np.ndarray, target: str = "host-cpu") -> np.ndarray:
    given, result = tvm.runtime.tensor(x), tvm.runtime.tensor(np.zeros_like(x))
    compiled(name, len(x), target, x.dtype.name)["main"](given, result)
    return result.numpy()


# In vectors, and one at a time.
@pytest.mark.parametrize("size", [4096, 4099])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_error(name: str, size: int) -> None:
    reference, (low, high), units = FUNCTIONS[name]
    x = np.random.default_rng(0).uniform(low, high, size).astype(np.float32)
    expected = reference(x.astype(np.float64))
    error = np.abs(evaluated(name, x) - expected) / np.spacing(np.abs(expected).astype(np.float32))
    assert error.max() < units


@pytest.mark.parametrize("name", FUNCTIONS)
def test_limits(name: str) -> None:
    found = evaluated(name, np.array(SPECIAL, np.float32))
    np.testing.assert_allclose(found, AT_SPECIAL[name], rtol=1e-6, atol=1e-37)


# With fused multiply-adds, and of a CPU that has none.
@pytest.mark.parametrize("target", ["host-cpu", "host-cpu{mcpu=nehalem}"])
@pytest.mark.parametrize("name", ["erf", "tanh"])
def test_far_from_zero_it_is_one_exactly(name: str, target: str) -> None:
    x = np.concatenate([np.linspace(9, 1e3, 61), [1e30, 3e38, np.inf]]).astype(np.float32)
    assert (evaluated(name, x, target) == 1).all()
    assert (evaluated(name, -x, target) == -1).all()


def test_an_exponential_ends_at_the_ends_of_float32() -> None:
    x = np.array([88.3, 88.9, 1e4, 3e38, -87.2, -87.5, -88.1, -200, -1e9, -3e38], np.float32)
    expected = [math.exp(x[0]), *[math.inf] * 3, math.exp(x[4]), math.exp(x[5]), *[0] * 4]
    np.testing.assert_allclose(evaluated("exp", x), expected, rtol=1e-5)


def test_double_precision_is_kept() -> None:
    x = np.linspace(-5, 5, 64)
    np.testing.assert_allclose(evaluated("exp", x), np.exp(x), rtol=1e-14)


@pytest.mark.parametrize(("dtype", "error"), [("float32", 1e-6), ("float64", 1e-15)])
def test_a_loop_that_is_marked_for_vectors(dtype: str, error: float) -> None:
    """Each function leaves it one; of the error function TVM would make it scalar."""
    for name, (reference, (low, high), _) in FUNCTIONS.items():
        x = np.linspace(max(low, -5), min(high, 5), 64).astype(dtype)
        made = marked_loop(name, dtype)
        text = str(tirx.transform.VectorizeLoop()(made))
        assert "T.Ramp" in text
        given, result = tvm.runtime.tensor(x), tvm.runtime.tensor(np.zeros_like(x))
        tvm.compile(made, parse_target("host-cpu").to_tvm())["main"](given, result)
        np.testing.assert_allclose(result.numpy(), reference(x), rtol=error, atol=error)


def marked_loop(name: str, dtype: str) -> tvm.IRModule:
    register_vector_math()
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        T.func_attr({"global_symbol": "main"})
        x, y = (T.arg(each, T.buffer((64,), dtype)) for each in "xy")
        with T.serial(8) as i, T.vectorized(8) as lane:
            value = getattr(tirx, name)(tirx.BufferLoad(x, [i * 8 + lane]))
            T.buffer_store(y, value, [i * 8 + lane])
    return tvm.IRModule({"main": builder.get()})


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_phone_calls_no_library(name: str) -> None:
    text = compiled(name, 4096, "linux-arm64-cpu").mod.inspect_source("s")
    assert not {f"bl\t{function}f" for function in FUNCTIONS} & {
        line.strip() for line in text.splitlines()
    }
