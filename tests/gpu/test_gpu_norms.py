"""Normalisations and sums over rows on this machine's devices, against double precision."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from tvm import tirx

from odtc.backends.gpu.known import GPUS
from odtc.backends.gpu.machine import LARGE, PHONE, Gpu
from odtc.backends.gpu.rows.batch_norm import (
    batch_norm,
    batch_norm_gradient,
    batch_statistics,
)
from odtc.backends.gpu.rows.channel_sums import channel_sum_kernel
from odtc.backends.gpu.rows.column_sums import column_sum_kernel
from odtc.backends.gpu.rows.cut import cut_of
from odtc.backends.gpu.rows.layer_norm import held_layer_norm, held_layer_norm_gradient, rows_of
from odtc.backends.gpu.rows.teams import width_of
from odtc.backends.kernels.rows.passes import Team
from tests.fast import fast_if
from tests.gpu.on_device import KINDS, run_kernel

MACHINES = {"large": LARGE, "mali": GPUS["mali-g76"]}
EPSILON = 1e-5


def team_of(gpu: Gpu) -> Team:
    return Team(gpu.group, gpu.groups)


def results_of(
    kind: str, kernel: tirx.PrimFunc, read: Sequence[np.ndarray], count: int
) -> list[np.ndarray]:
    """What a kernel writes, one result after the other: each is once the last of its arguments."""
    found = []
    for number in range(count):
        inputs, results = kernel.params[: len(read)], list(kernel.params[len(read) :])
        last = results.pop(number)
        turned = tirx.PrimFunc([*inputs, *results, last], kernel.body, attrs=kernel.attrs)
        others = [np.zeros(tuple(map(int, each.shape)), str(each.dtype)) for each in results]
        shape = tuple(map(int, last.shape))
        turned = turned.with_attr("global_symbol", "main")
        found.append(run_kernel(kind, turned, [*read, *others], shape))
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("sizes", [(1030, 36), (100, 7), (5000, 1)], ids=str)
def test_sums_over_rows(kind: str, machine: str, sizes: tuple[int, int]) -> None:
    x = np.random.default_rng(0).standard_normal(sizes).astype(np.float32)
    kernel = column_sum_kernel(*sizes, team_of(MACHINES[machine]))
    found = run_kernel(kind, kernel.with_attr("global_symbol", "main"), [x], sizes[1:])
    np.testing.assert_allclose(found, x.sum(0, dtype=np.float64), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("shape", "gpu"), [((4, 3, 144), "large"), ((4, 3, 3025), "large"), ((2, 5, 1600), "mali")]
)
def test_sums_of_channels(kind: str, shape: tuple[int, int, int], gpu: str) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    kernel = channel_sum_kernel(shape, MACHINES[gpu]).with_attr("global_symbol", "main")
    found = run_kernel(kind, kernel, [x], shape[1:2])
    np.testing.assert_allclose(found, x.sum((0, 2), dtype=np.float64), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("shape", "dtype", "machine", "centred"),
    [
        ((4100, 96), "float32", "large", True),
        ((37, 260), "float32", "large", False),
        ((50, 7), "float32", "mali", True),
        ((9, 192), "float16", "large", True),
    ],
    ids=str,
)
def test_layer_norms(
    kind: str, shape: tuple[int, int], dtype: str, machine: str, centred: bool
) -> None:
    gpu, rng = MACHINES[machine], np.random.default_rng(0)
    x = (rng.standard_normal(shape) + 3).astype(dtype)
    dy, *affine = (
        rng.standard_normal(size).astype(np.float32)
        for size in (shape, *[shape[1:]] * (1 + centred))
    )
    wide = [torch.tensor(t.astype(np.float64), requires_grad=True) for t in (x, *affine)]
    far = wide[0] - wide[0].mean(1, keepdim=True) if centred else wide[0]
    y = far / (far.square().mean(1, keepdim=True) + EPSILON).sqrt() * wide[1]
    y = y + wide[2] if centred else y
    y.backward(torch.tensor(dy.astype(np.float64)))
    rows = rows_of(shape, width_of(shape[1], "float32", dtype), gpu)
    assert rows is not None
    if dtype == "float32":
        kernel = held_layer_norm(rows, EPSILON, dtype, centred=centred)
        (found,) = results_of(kind, kernel, [x, *affine], 1)
        np.testing.assert_allclose(found, y.detach().numpy(), rtol=1e-5, atol=1e-5)
    kernel = held_layer_norm_gradient(
        rows, EPSILON, (dtype, "float32"), team_of(gpu), centred=centred
    )
    for found, of in zip(
        results_of(kind, kernel, [dy, x, affine[0]], 2 + centred), wide, strict=True
    ):
        assert of.grad is not None
        np.testing.assert_allclose(found, of.grad.numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_far_from_zero_keeps_its_digits(kind: str) -> None:
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((40, 192)) + 1e4).astype(np.float32)
    ones = np.ones(192, np.float32)
    rows = rows_of((40, 192), 4, LARGE)
    assert rows is not None
    (found,) = results_of(
        kind, held_layer_norm(rows, EPSILON, "float32", centred=True), [x, ones, 0 * ones], 1
    )
    wide = x.astype(np.float64)
    wanted = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + EPSILON)
    np.testing.assert_allclose(found, wanted, atol=2e-3)


# So many channels as this one is kept busy by have a group each.
FEW = replace(LARGE, groups=1)


@pytest.mark.parametrize("kind", fast_if("vulkan".__eq__, KINDS))
@pytest.mark.parametrize(
    ("shape", "mean", "activation", "gpu"),
    [
        # Held in registers; in parts of vectors, and of scalars; in turns.
        ((4, 3, 144), 3, "", LARGE),
        ((8, 3, 3136), 3, "relax.nn.relu", LARGE),
        ((5, 3, 1849), 1e4, "", LARGE),
        ((5, 9, 3136), 3, "", FEW),
        # In as many parts as items merge.
        ((16, 3, 784), 3, "", LARGE),
        ((5, 3, 729), 3, "relax.nn.relu", GPUS["mali-g76"]),
    ],
    ids=["held", "vectors", "scalars", "turns", "four parts", "eight parts"],
)
def test_batch_norms(
    kind: str, shape: tuple[int, int, int], mean: float, activation: str, gpu: Gpu
) -> None:
    rng, along = np.random.default_rng(0), (None, slice(None), None)
    x = (rng.standard_normal(shape) + mean).astype(np.float32)
    gamma, beta, *running = (rng.uniform(0.5, 2, shape[1]).astype(np.float32) for _ in range(4))
    middle, variance = x.mean((0, 2), dtype=np.float64), x.var((0, 2), dtype=np.float64)
    root = np.sqrt(variance + EPSILON)
    normal = (x - middle[along]) / root[along]
    kernel = batch_norm(shape, EPSILON, 0.25, activation=activation, correction=1.5, gpu=gpu)
    y, *results = results_of(kind, kernel, [x, gamma, beta, *running], 5)
    wanted = normal * gamma[along] + beta[along]
    wanted = np.maximum(wanted, 0) if activation else wanted
    # What a mean is rounded by, in deviations, is what two passes lose as well.
    np.testing.assert_allclose(y, wanted, atol=1e-6 * (10 + mean))
    moved = [0.75 * a + 0.25 * b for a, b in zip(running, (middle, 1.5 * variance), strict=True)]
    for found, value in zip(results, (*moved, middle, 1 / root), strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-5)
    kernel = batch_statistics(shape, EPSILON, 0.25, correction=1.5, gpu=gpu)
    for found, value in zip(results_of(kind, kernel, [x, *running], 4), results, strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("shape", "dtype", "gpu"),
    [
        ((4, 3, 144), "float32", LARGE),
        ((8, 3, 1568), "float32", LARGE),
        ((2, 3, 77), "float16", LARGE),
        ((5, 9, 3136), "float32", FEW),
    ],
    ids=["held", "parts", "half", "turns"],
)
def test_gradients_of_batch_norms(
    kind: str, shape: tuple[int, int, int], dtype: str, gpu: Gpu
) -> None:
    rng, along = np.random.default_rng(0), (None, slice(None), None)
    held, first = shape[1] + 2, 1
    whole = rng.standard_normal((shape[0], held, shape[2])).astype(dtype)
    x = whole[:, first : first + shape[1]].astype(np.float64)
    dy = rng.standard_normal(shape).astype(np.float32)
    gamma = rng.uniform(0.5, 2, shape[1]).astype(np.float32)
    mean, scale = x.mean((0, 2)), 1 / np.sqrt(x.var((0, 2)) + EPSILON)
    normal = (x - mean[along]) * scale[along]
    dgamma, dbeta = (dy * normal).sum((0, 2)), dy.sum((0, 2), dtype=np.float64)
    count = dy.size / shape[1]
    dx = (gamma * scale)[along] * (dy - (dbeta[along] + normal * dgamma[along]) / count)
    kernel = batch_norm_gradient(shape, dtype, held=(held, first), gpu=gpu)
    kept = [each.astype(np.float32) for each in (mean, scale)]
    found = results_of(kind, kernel, [dy, whole, gamma, *kept], 3)
    for value, wanted in zip(found, (dx, dgamma, dbeta), strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-4)


def test_cuts_keep_a_gpu_busy_and_what_they_merge_is_in_one_group() -> None:
    for gpu in (PHONE, *MACHINES.values()):
        for shape in itertools.product((1, 32, 256), (1, 16, 2048), (1, 49, 196, 12544)):
            cut = cut_of(shape, width_of(shape[2], "float32"), 2, gpu)
            assert cut.parts <= gpu.group
            # The parts have all elements, and none is empty.
            assert (cut.parts - 1) * cut.own < cut.vectors <= cut.parts * cut.own
            if cut.parts == 1 and cut.turns == 1:
                assert 2 * cut.count * cut.width <= max(gpu.accumulators, 32)
