"""Functions of kernels on this machine's Vulkan device, against numpy in double precision."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import tirx

from tests.gpu.elementwise import COUNT, on_vulkan

LINE = np.linspace(-9.5, 9.5, COUNT)
POSITIVE = np.geomspace(1e-30, 1e30, COUNT)
# From where x to sin x and erf x differ little to where they are nothing alike.
SIZES = np.concatenate([np.geomspace(1e-6, 50, COUNT // 2), -np.geomspace(1e-6, 50, COUNT // 2)])
erf = np.vectorize(math.erf)

# TIR's function, numpy's, where, and the error in units of the last place; where the second number
# is given, an error of that size is none.
FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any], np.ndarray, float, float]] = {
    "exp": (tirx.exp, np.exp, LINE, 24, 0),
    "log": (tirx.log, np.log, POSITIVE, 4, 5e-7),
    "log1p": (tirx.log1p, np.log1p, np.abs(SIZES), 8, 0),
    "sqrt": (tirx.sqrt, np.sqrt, POSITIVE, 4, 0),
    "rsqrt": (tirx.rsqrt, lambda x: x**-0.5, POSITIVE, 4, 0),
    "tanh": (tirx.tanh, np.tanh, SIZES, 24, 0),
    "sigmoid": (tirx.sigmoid, lambda x: 1 / (1 + np.exp(-x)), LINE, 24, 0),
    "erf": (tirx.erf, erf, SIZES, 10, 0),
    "sin": (tirx.sin, np.sin, SIZES, 4, 2e-7),
    "cos": (tirx.cos, np.cos, SIZES, 4, 2e-7),
    "tan": (tirx.tan, np.tan, LINE, 32, 0),
    # What Vulkan promises, and all that Mesa gives.
    "atan": (tirx.atan, np.arctan, LINE, 4096, 0),
    "floor": (tirx.floor, np.floor, LINE, 0, 0),
    "ceil": (tirx.ceil, np.ceil, LINE, 0, 0),
    "trunc": (tirx.trunc, np.trunc, LINE, 0, 0),
    "round": (tirx.round, np.round, np.round(LINE * 2) / 2, 0, 0),
    "abs": (tirx.abs, np.abs, LINE, 0, 0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    build, reference, where, units, small = FUNCTIONS[name]
    given = where.astype("float32")
    expected = reference(given.astype("float64"))
    found = on_vulkan(build, [given], "float32")
    allowed = units * np.abs(np.spacing(expected.astype("float32"))) + small
    assert (np.abs(found - expected) <= allowed).all(), np.abs(found - expected) / allowed


@pytest.mark.parametrize("name", ["exp", "tanh", "erf", "sigmoid", "sqrt", "sin"])
def test_half_functions(name: str) -> None:
    build, reference, *_ = FUNCTIONS[name]
    given = np.linspace(0.1, 4, COUNT).astype("float16")
    expected = reference(given.astype("float64"))
    np.testing.assert_allclose(on_vulkan(build, [given], "float16"), expected, rtol=2e-3)


@pytest.mark.parametrize("exponent", [2.0, 3.0, 0.5, -1.0, -2.0, 0.0, 2.5, 7.0])
def test_powers_with_a_constant(exponent: float) -> None:
    given = LINE.astype("float32")
    with np.errstate(invalid="ignore"):
        expected = given.astype("float64") ** exponent
    found = on_vulkan(lambda a: tirx.power(a, tirx.const(exponent, "float32")), [given], "float32")
    np.testing.assert_allclose(found, expected, rtol=2e-5)


def test_powers_at_their_edges() -> None:
    base = np.array([0.0, 0.0, 0.0, -2.0, -2.0, 1.0, 3.0, -1.5] * 8, "float32")
    exponent = np.array([2.0, 0.0, -1.0, 3.0, 0.5, 9.0, -2.0, 4.0] * 8, "float32")
    with np.errstate(invalid="ignore", divide="ignore"):
        expected = base.astype("float64") ** exponent
    np.testing.assert_allclose(on_vulkan(tirx.power, [base, exponent], "float32"), expected, 1e-6)


EDGES = np.array([np.nan, np.inf, -np.inf, 0.0, -1.0, 1e38, -1e38, 1.0] * 8, "float32")


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "sigmoid", "erf", "sqrt"])
def test_the_ends_of_the_line(name: str) -> None:
    """Of NaN, infinities, zero, and what is too large, as numpy."""
    build, reference, *_ = FUNCTIONS[name]
    with np.errstate(all="ignore"):
        expected = reference(EDGES).astype("float32")
    np.testing.assert_allclose(on_vulkan(build, [EDGES], "float32"), expected, 1e-5)


def test_what_is_no_number() -> None:
    np.testing.assert_array_equal(on_vulkan(tirx.isnan, [EDGES], "int32"), np.isnan(EDGES))
    np.testing.assert_array_equal(on_vulkan(tirx.isinf, [EDGES], "int32"), np.isinf(EDGES))
    np.testing.assert_array_equal(on_vulkan(tirx.isfinite, [EDGES], "int32"), np.isfinite(EDGES))
