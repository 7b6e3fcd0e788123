"""Slopes of functions of one element, against double precision."""

import math

import numpy as np
import pytest
import tvm
from tvm import te

from odtc.autoschedule.cpu import schedule_kernel
from odtc.backends.targets import parse_target
from odtc.backends.vector_math import register_vector_math
from odtc.dialect.elements.pointwise import _gelu_slope


@pytest.mark.parametrize(("dtype", "error"), [("float32", 3e-7), ("float64", 1e-15)])
def test_the_slope_of_a_gelu(dtype: str, error: float) -> None:
    x = np.linspace(-20, 20, 40_000).astype(dtype)
    x[:3] = [0.0, -0.0, np.nan]
    given = te.placeholder(x.shape, dtype, name="x")
    slope = te.compute(x.shape, lambda i: _gelu_slope(given(i)), name="y")
    function = te.create_prim_func([given, slope]).with_attr("global_symbol", "main")
    register_vector_math()
    target = parse_target("host-cpu").to_tvm()
    with target:
        made = tvm.compile(tvm.IRModule({"main": schedule_kernel(function, 8)}), target)
    result = tvm.runtime.tensor(np.zeros_like(x))
    made["main"](tvm.runtime.tensor(x), result)
    found = result.numpy()
    assert np.isnan(found[2])
    wide = x.astype(np.float64)
    below = np.array([0.5 * math.erfc(-value * math.sqrt(0.5)) for value in wide])
    expected = below + wide * np.exp(-0.5 * wide * wide) / math.sqrt(2 * math.pi)
    assert np.nanmax(np.abs(found - expected)) < error
