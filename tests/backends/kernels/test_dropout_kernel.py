"""Dropout over sizes that its generator, of four words at a time, does not divide."""

import numpy as np
import pytest

from odtc.backends.kernels.draw.dropout import PARALLEL_CALLS, WORDS, dropout_kernel
from tests.backends.products.guarded import run_guarded
from tests.numeric.layers.masks import mask

# Enough work for two threads, which do not share it evenly.
THREADED = WORDS * PARALLEL_CALLS + 7


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6, 7, 21, THREADED])
def test_values(size: int) -> None:
    x = np.random.default_rng(0).standard_normal(size).astype(np.float32)
    kernel = dropout_kernel(size, 0.2, stream=3, seed=0x1234_5678_9ABC)
    (found,) = run_guarded(kernel, [x, np.array(5, np.int32)])
    expected = x * mask((size,), 0.2, 3, 5, 0x1234_5678_9ABC)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
