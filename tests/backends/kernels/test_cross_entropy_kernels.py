"""Cross-entropy of rows and its derivative, against PyTorch in double precision."""

import numpy as np
import pytest
import torch
import tvm
from hypothesis import example, given, settings
from hypothesis import strategies as st

from odtc.backends.kernels.rows.cross_entropy import (
    cross_entropy_kernel,
    cross_entropy_slope_kernel,
)
from odtc.backends.vector_math import register_vector_math
from tests.backends.products.guarded import run_guarded
from tests.fast import examples


def run(kernel: tvm.tirx.PrimFunc, results: int, *tensors: np.ndarray) -> list[np.ndarray]:
    register_vector_math()
    return run_guarded(kernel, tensors, results)


@pytest.mark.parametrize("lanes", [4, 16])
@settings(max_examples=examples(10), deadline=None)
@given(
    shape=st.tuples(st.integers(1, 6), st.integers(1, 150)),
    seed=st.integers(0, 99),
    spread=st.sampled_from([1, 40]),
    level=st.sampled_from([0, 256]),
)
# Enough work for two threads.
@example(shape=(70, 300), seed=0, spread=1, level=-256)
def test_values_and_gradients(
    lanes: int, shape: tuple[int, int], seed: int, spread: int, level: int
) -> None:
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal(shape) * spread + level).astype(np.float32)
    label = rng.integers(0, shape[1], shape[0]).astype(np.int32)
    factor = rng.standard_normal(shape[0]).astype(np.float32)
    wide = torch.tensor(x.astype(np.float64), requires_grad=True)
    logs = torch.log_softmax(wide, dim=1)[np.arange(shape[0]), label]
    (slope,) = torch.autograd.grad(-(logs * torch.tensor(factor)).sum(), wide)
    chosen, top, rest = run(cross_entropy_kernel(shape, lanes), 3, x, label)
    np.testing.assert_allclose(chosen, logs.detach(), rtol=1e-5, atol=1e-6 * spread)
    kernel = cross_entropy_slope_kernel(shape, lanes)
    (found,) = run(kernel, 1, x, label, top, rest, factor)
    np.testing.assert_allclose(found, slope, rtol=1e-5, atol=1e-6)


def test_labels_of_no_class_and_classes_that_are_masked() -> None:
    x = np.random.default_rng(0).standard_normal((3, 20)).astype(np.float32)
    x[:, 5] = -np.inf
    label = np.array([-100, 20, 5], np.int32)
    chosen, top, rest = run(cross_entropy_kernel(x.shape, 16), 3, x, label)
    assert chosen.tolist() == [0, 0, -np.inf]
    (dx,) = run(
        cross_entropy_slope_kernel(x.shape, 16), 1, x, label, top, rest, np.ones(3, np.float32)
    )
    shares = torch.softmax(torch.tensor(x), 1).numpy()
    shares[2, 5] = -1
    np.testing.assert_allclose(dx, shares, rtol=1e-5, atol=1e-7)
