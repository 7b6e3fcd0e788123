"""Normalisations and sums over rows on this machine's devices, against double precision."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from tvm import tirx

from odtc.backends.gpu.column_sums import column_sum_kernel
from odtc.backends.gpu.known import GPUS
from odtc.backends.gpu.layer_norm import held_layer_norm, held_layer_norm_gradient, rows_of
from odtc.backends.gpu.machine import LARGE, Gpu
from odtc.backends.gpu.teams import width_of
from odtc.backends.kernels.rows.passes import Team
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
@pytest.mark.parametrize("sizes", [(1030, 36), (100, 7)], ids=str)
def test_sums_over_rows(kind: str, machine: str, sizes: tuple[int, int]) -> None:
    x = np.random.default_rng(0).standard_normal(sizes).astype(np.float32)
    kernel = column_sum_kernel(*sizes, team_of(MACHINES[machine]))
    found = run_kernel(kind, kernel.with_attr("global_symbol", "main"), [x], sizes[1:])
    np.testing.assert_allclose(found, x.sum(0, dtype=np.float64), rtol=1e-5, atol=1e-4)


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
