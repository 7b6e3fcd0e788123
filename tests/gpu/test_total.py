"""The total of a gradient, for a loss scale and a norm: its squares, and what is not finite."""

from dataclasses import replace

import numpy as np
import pytest
import tvm_ffi
from tvm import tirx

from odtc.backends.gpu.machine import LARGE, PHONE, Gpu
from odtc.backends.gpu.rows.total import total_on_gpu
from odtc.frontend.updates.control_kernels import NOT_FINITE, SQUARES, total_kernel
from tests.gpu.on_device import KINDS, run_kernel

# One group, and several, of which the last has less to do.
SHAPES = [(5, 3, 1, 1), (1001, 37)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("scaled", [True, False])
def test_squares_and_elements_that_are_not_finite(
    kind: str, shape: tuple[int, ...], scaled: bool
) -> None:
    g = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    kernel = total_kernel(shape, 2, scaled=scaled).with_attr("global_symbol", "main")
    scale = [np.array(4, np.float32)] if scaled else []

    def total(step: int) -> np.ndarray:
        given = [g, np.array([10, 1], np.float32), np.array(step, np.int32), *scale]
        return run_kernel(kind, kernel, given, (2,))

    squares = np.square(g.astype(np.float64) / (4 if scaled else 1)).sum()
    np.testing.assert_allclose(total(3), [10 + squares, 1], rtol=1e-6)
    # Not the last of its two micro-batches.
    np.testing.assert_array_equal(total(4), np.array([10, 1], np.float32))
    g.flat[0], g.flat[-1] = np.nan, -np.inf
    assert total(3)[NOT_FINITE] == 3
    assert not np.isfinite(total(3)[SQUARES])


@pytest.mark.parametrize("gpu", [PHONE, LARGE, replace(PHONE, group=64)])
def test_groups_share_what_is_large(gpu: Gpu) -> None:
    """No item adds up more than a few elements for each group that keeps the GPU busy."""
    loops: list[tirx.For] = []
    kernel = total_on_gpu(total_kernel((3072, 768), 1, scaled=True), gpu)
    tvm_ffi.structural_walk(kernel.body, (tirx.For, loops.append))
    serial = [int(each.extent) for each in loops if each.kind == tirx.ForKind.SERIAL]
    assert max(serial) * 4 * gpu.group * gpu.groups * 4 < 3072 * 768 * 2
    assert sum(each.kind == tirx.ForKind.THREAD_BINDING for each in loops) == 4
