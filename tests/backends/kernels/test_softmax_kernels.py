"""Softmax, its logarithm and their gradients over the last dimension, against double precision."""

import numpy as np
import pytest
import torch
import tvm
from hypothesis import example, given, settings
from hypothesis import strategies as st

from odtc.backends.kernels.rows.softmax import log_softmax_kernel, softmax_gradient, softmax_kernel
from odtc.backends.vector_math import register_vector_math
from tests.backends.products.guarded import run_guarded
from tests.fast import examples

SHAPES = st.tuples(st.integers(1, 6), st.integers(1, 150))


def run(kernel: tvm.tirx.PrimFunc, *tensors: np.ndarray) -> np.ndarray:
    register_vector_math()
    return run_guarded(kernel, tensors)[0]


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("lanes", [4, 16])
@settings(max_examples=examples(8), deadline=None)
@given(
    shape=SHAPES,
    half=st.booleans(),
    seed=st.integers(0, 99),
    spread=st.sampled_from([1, 40]),
    level=st.sampled_from([0, 256]),
)
# Enough work for two threads; powers of all elements that are none of float32.
@example(shape=(70, 300), half=False, seed=0, spread=1, level=-256)
def test_values_and_gradients(
    log: bool, lanes: int, shape: tuple[int, int], half: bool, seed: int, spread: int, level: int
) -> None:
    rng = np.random.default_rng(seed)
    x, dy = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
    x = x * spread + level
    function = torch.log_softmax if log else torch.softmax
    y = function(torch.tensor(x.astype(np.float64)), dim=1)
    forward = (log_softmax_kernel if log else softmax_kernel)(shape, lanes)
    np.testing.assert_allclose(run(forward, x), y.numpy(), rtol=1e-5, atol=1e-6 * spread)

    # The gradient is one of the result, as it is stored.
    kept = y.numpy().astype(np.float16 if half else np.float32)
    wide, adjoint = kept.astype(np.float64), dy.astype(np.float64)
    if log:
        expected = adjoint - np.exp(wide) * adjoint.sum(1, keepdims=True)
    else:
        expected = wide * (adjoint - (adjoint * wide).sum(1, keepdims=True))
    found = run(softmax_gradient(shape, str(kept.dtype), lanes, log=log), dy, kept)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [7, 16, 100])
def test_masked_rows(size: int) -> None:
    """A row of -inf, or with a NaN, is NaN as in PyTorch, or zero in the kernel that is safe."""
    x = np.zeros((3, size), np.float32)
    x[0] = -np.inf
    x[1, 1:] = -np.inf
    x[2, 2] = np.nan
    plain, safe = (run(softmax_kernel(x.shape, 16, safe=safe), x) for safe in (False, True))
    first = np.eye(1, size, dtype=np.float32)[0]
    assert np.isnan(plain[0]).all()
    assert np.isnan(plain[2]).all()
    assert not safe[[0, 2]].any()
    for found in (plain, safe):
        np.testing.assert_array_equal(found[1], first)
