"""Layer, RMS and group normalisation with their gradients, against double precision."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from odtc.backends.kernels.norm.group_norm import group_norm_gradient, group_norm_kernel
from odtc.backends.kernels.norm.layer_norm import layer_norm_gradient, layer_norm_kernel
from tests.backends.products.guarded import run_guarded
from tests.fast import examples

EPSILON = 1e-3
KINDS = st.sampled_from(["layer", "rms", "group"])
# Rows, or samples; groups; channels of a group; elements of a channel, or of a row.
SHAPES = st.tuples(st.integers(1, 40), st.integers(1, 3), st.integers(1, 4), st.integers(1, 90))


def reference(kind: str, axes: tuple[int, ...]) -> Callable[..., torch.Tensor]:
    def normal(x: torch.Tensor, gamma: torch.Tensor, *beta: torch.Tensor) -> torch.Tensor:
        distance = x if kind == "rms" else x - x.mean(axes, keepdim=True)
        variance = distance.square().mean(axes, keepdim=True)
        y = distance / (variance + EPSILON).sqrt() * gamma
        return y + beta[0] if beta else y

    return normal


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("lanes", [4, 16])
@settings(max_examples=examples(8), deadline=None)
@given(kind=KINDS, sizes=SHAPES, seed=st.integers(0, 99))
# Enough work for two threads.
@example(kind="layer", sizes=(70, 1, 1, 300), seed=0)
@example(kind="group", sizes=(7, 3, 2, 500), seed=0)
def test_values_and_gradients(
    dtype: str, lanes: int, kind: str, sizes: tuple[int, int, int, int], seed: int
) -> None:
    """The backward pass may read tensors in half precision; the forward pass does not."""
    grouped, centred = kind == "group", kind != "rms"
    shape = sizes if grouped else sizes[::3]
    affine = (*sizes[1:3], 1) if grouped else sizes[3:]
    rng = np.random.default_rng(seed)
    x, dy = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
    gamma, beta = (rng.standard_normal(affine).astype(np.float32) for _ in range(2))
    x = x.astype(dtype)
    operands = [gamma, beta][: 1 + centred]

    wide = [torch.tensor(each.astype(np.float64), requires_grad=True) for each in (x, *operands)]
    y = reference(kind, (2, 3) if grouped else (1,))(*wide)
    y.backward(torch.tensor(dy.astype(np.float64)))

    flat = affine[:2] if grouped else affine
    if grouped:
        forward = group_norm_kernel(sizes, EPSILON, lanes)
        backward = group_norm_gradient(sizes, EPSILON, dtype, lanes)
    else:
        forward = layer_norm_kernel(sizes[::3], EPSILON, lanes, centred=centred)
        backward = layer_norm_gradient(sizes[::3], EPSILON, dtype, lanes, centred=centred)
    tensors = [x.astype(np.float32), *(each.reshape(flat) for each in operands)]
    (found,) = run_guarded(forward, tensors)
    np.testing.assert_allclose(found, y.detach().numpy(), rtol=1e-4, atol=1e-4)
    gradients = run_guarded(backward, [dy, x, gamma.reshape(flat)], 1 + len(operands))
    for value, leaf in zip(gradients, wide, strict=True):
        assert leaf.grad is not None
        expected = leaf.grad.numpy().reshape(value.shape)
        np.testing.assert_allclose(value, expected, rtol=1e-3, atol=3e-4)
