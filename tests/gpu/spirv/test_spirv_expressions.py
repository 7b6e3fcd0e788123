"""Expressions of kernels as SPIR-V, against numpy, on this machine's Vulkan device."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tvm import tirx

from tests.fast import examples, fast_if
from tests.gpu.elementwise import COUNT, on_vulkan

SLOWLY = settings(max_examples=examples(12), deadline=None, suppress_health_check=list(HealthCheck))


@dataclass(frozen=True)
class Both:
    """An operator in TIR and in numpy."""

    tir: Callable[..., Any]
    numpy: Callable[..., Any]


def truncated(a: Any, b: Any) -> Any:
    """C's division; numpy's rounds down."""
    return np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))


# Results stay small: TVM's simplifier takes it that no signed integer overflows.
INTEGERS = {
    "add": Both(lambda a, b: a + b, np.add),
    "subtract": Both(lambda a, b: a - b, np.subtract),
    "by three": Both(lambda a, b: a * 3 + b, lambda a, b: a * 3 + b),
    "least": Both(tirx.min, np.minimum),
    "most": Both(tirx.max, np.maximum),
    "over": Both(lambda a, b: tirx.truncdiv(a, b * b + 1), lambda a, b: truncated(a, b * b + 1)),
    "rest": Both(
        lambda a, b: tirx.truncmod(a, b * b + 1),
        lambda a, b: a - truncated(a, b * b + 1) * (b * b + 1),
    ),
    "floor": Both(lambda a, b: tirx.floordiv(a, b * b + 2), lambda a, b: a // (b * b + 2)),
    "modulo": Both(lambda a, b: tirx.floormod(a, b * b + 2), lambda a, b: a % (b * b + 2)),
    "and": Both(lambda a, b: a & b, np.bitwise_and),
    "or": Both(lambda a, b: a | b, np.bitwise_or),
    "xor": Both(lambda a, b: a ^ b, np.bitwise_xor),
    "left": Both(lambda a, b: (a << 2) + b, lambda a, b: (a << 2) + b),
    "right": Both(lambda a, b: (a >> 2) - b, lambda a, b: (a >> 2) - b),
    "choice": Both(lambda a, b: tirx.Select(a < b, a, -b), lambda a, b: np.where(a < b, a, -b)),
    "branch": Both(
        lambda a, b: tirx.if_then_else(tirx.any(a == b, a >= 9), b, a),
        lambda a, b: np.where((a == b) | (a >= 9), b, a),
    ),
}
# TVM takes a 1.0 for a float32, and a 1 for what it is added to.
FLOATS = {
    "add": Both(lambda a, b: a + b, np.add),
    "subtract": Both(lambda a, b: a - b, np.subtract),
    "multiply": Both(lambda a, b: a * b, np.multiply),
    "over": Both(lambda a, b: a / (b * b + 1), lambda a, b: a / (b * b + 1)),
    "least": Both(tirx.min, np.minimum),
    "most": Both(tirx.max, np.maximum),
    "choice": Both(lambda a, b: tirx.Select(a <= b, a, -b), lambda a, b: np.where(a <= b, a, -b)),
    "branch": Both(
        lambda a, b: tirx.if_then_else(tirx.all(a != b, tirx.Not(a > 2.0)), b, a),
        lambda a, b: np.where((a != b) & ~(a > 2), b, a),
    ),
    "floor": Both(lambda a, b: tirx.floor(a) + b, lambda a, b: np.floor(a) + b),
    "root": Both(lambda a, b: tirx.sqrt(a * a + 1) - b, lambda a, b: np.sqrt(a * a + 1) - b),
}


def trees(operators: dict[str, Both]) -> st.SearchStrategy:
    """Nested pairs: of an operator's name and two trees; a leaf is the number of an input."""
    return st.recursive(
        st.sampled_from([0, 1]),
        lambda inner: st.tuples(st.sampled_from(sorted(operators)), inner, inner),
        max_leaves=6,
    )


def value(tree: Any, operators: dict[str, Both], side: str, inputs: Any) -> Any:
    if isinstance(tree, int):
        return inputs[tree]
    name, *parts = tree
    return getattr(operators[name], side)(*(value(p, operators, side, inputs) for p in parts))


@SLOWLY
@given(trees(INTEGERS), st.sampled_from(["int32", "int64"]), st.sampled_from([1, 4]))
def test_integers(tree: Any, dtype: str, lanes: int) -> None:
    """Vectors are of what has no branches: TVM has no vectors of these."""
    lanes = 1 if "branch" in str(tree) else lanes
    random = np.random.default_rng(0)
    arrays = [random.integers(-9, 10, COUNT).astype(dtype) for _ in range(2)]
    expected = value(tree, INTEGERS, "numpy", arrays)
    found = on_vulkan(lambda *a: value(tree, INTEGERS, "tir", a), arrays, dtype, lanes)
    np.testing.assert_array_equal(found, expected)


@SLOWLY
@given(trees(FLOATS), st.sampled_from(["float32", "float64", "float16"]), st.sampled_from([1, 4]))
def test_floats(tree: Any, dtype: str, lanes: int) -> None:
    lanes = 1 if "branch" in str(tree) else lanes
    random = np.random.default_rng(0)
    # Quarters, so that few results are next to a bound where rounding decides.
    arrays = [(random.integers(-12, 13, COUNT) / 4).astype(dtype) for _ in range(2)]
    exact = [each.astype("float64") for each in arrays]
    expected = value(tree, FLOATS, "numpy", exact)
    largest = max(np.abs(expected).max(), 1)
    if largest > 1e4:
        return
    found = on_vulkan(lambda *a: value(tree, FLOATS, "tir", a), arrays, dtype, lanes)
    epsilon = np.finfo(dtype).eps
    close = np.abs(found - expected) <= 64 * epsilon * largest
    # A comparison of what rounding has moved may fall the other way.
    assert close.mean() > (0.9 if dtype == "float16" else 0.99), (found, expected)


DTYPES = "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64".split()
FAST = {("int32", 1), ("bool", 1), ("float32", 4)}


@pytest.mark.parametrize(
    "case", fast_if(FAST.__contains__, itertools.product(DTYPES, (1, 4))), ids=str
)
def test_casts(case: tuple[str, int]) -> None:
    """As C casts: integers keep their last bits, floats lose their fraction."""
    source, lanes = case
    random = np.random.default_rng(0)
    for target in DTYPES:
        low = 0 if source.startswith("u") or target.startswith("u") else -100
        given = random.integers(low, 101, COUNT)
        if "float" in source:
            given = given / 3
        elif source != "bool" and "float" not in target:
            given = random.integers(np.iinfo(source).min, np.iinfo(source).max, COUNT, source)
        given = given.astype(source)
        found = on_vulkan(lambda a, to=target: a.astype(to), [given], target, lanes)
        np.testing.assert_array_equal(found, given.astype(target), f"{source} to {target}")


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_extrema_and_nan(dtype: str) -> None:
    """The first of two that is NaN stays; comparisons with NaN do not hold, but for `!=`."""
    a = np.array([np.nan, 1, -0.0, np.inf, -np.inf, 2, np.nan, 0] * 8, dtype)
    b = np.array([1, np.nan, 0.0, 1, 1, np.inf, np.nan, -1] * 8, dtype)
    for find, chosen in ((tirx.max, np.where(a < b, b, a)), (tirx.min, np.where(b < a, b, a))):
        np.testing.assert_array_equal(on_vulkan(find, [a, b], dtype), chosen)
    compare = {
        tirx.LT: a < b,
        tirx.LE: a <= b,
        tirx.GT: a > b,
        tirx.GE: a >= b,
        tirx.EQ: a == b,
        tirx.NE: a != b,
    }
    for build, expected in compare.items():
        np.testing.assert_array_equal(on_vulkan(build, [a, b], "int32"), expected)


def test_bits_of_floats() -> None:
    given = np.linspace(-3, 3, COUNT).astype("float32")
    found = on_vulkan(lambda a: tirx.reinterpret("int32", a), [given], "int32")
    np.testing.assert_array_equal(found, given.view("int32"))


def test_small_integers_wrap() -> None:
    a, b = (np.arange(COUNT, dtype="uint8") * step for step in (np.uint8(3), np.uint8(5)))
    for build in (lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a - b):
        np.testing.assert_array_equal(on_vulkan(build, [a, b], "uint8"), build(a, b))
