"""Batch normalisation in training, its gradient and its statistics, against double precision."""

import numpy as np
import pytest
import torch
import tvm
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.backends.kernels.common.operand import channels_of
from odtc.backends.kernels.norm.batch_norm import batch_norm_gradient, batch_norm_kernel
from tests.backends.products.guarded import run_guarded
from tests.fast import examples
from tests.host import HOST

EPSILON, MOMENTUM = 1e-5, 0.25

# The planes are shorter than a vector, as long as some, or have a rest.
SHAPES = st.tuples(st.integers(1, 5), st.integers(1, 6), st.integers(1, 150))

# Enough work for two threads.
THREADED = (3, 9, 1100)


def drawn(shape: tuple[int, int, int], seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    tensors = {name: rng.standard_normal(shape) for name in ("dy", "x")}
    channels = shape[1]
    tensors |= {name: rng.standard_normal(channels) for name in ("gamma", "beta", "mean")}
    tensors["variance"] = rng.uniform(0.5, 2, channels)
    return {name: value.astype(np.float32) for name, value in tensors.items()}


def statistics(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    wide = x.astype(np.float64)
    return wide.mean((0, 2)), wide.var((0, 2))


@pytest.mark.parametrize("lanes", [4, 16])
@settings(max_examples=examples(12), deadline=None)
@given(shape=SHAPES, seed=st.integers(0, 99))
@example(shape=THREADED, seed=0)
def test_values_and_statistics(lanes: int, shape: tuple[int, int, int], seed: int) -> None:
    tensors = drawn(shape, seed)
    x, mean, variance = tensors["x"], *statistics(tensors["x"])
    y, new_mean, new_variance, batch_mean, scale = run_guarded(
        batch_norm_kernel(shape, EPSILON, MOMENTUM, lanes, correction=1.5),
        [x, *(tensors[name] for name in ("gamma", "beta", "mean", "variance"))],
        results=5,
    )
    root = np.sqrt(variance + EPSILON)
    along = (None, slice(None), None)
    factor = tensors["gamma"] / root
    expected = (x - mean[along]) * factor[along] + tensors["beta"][along]
    # A deviation of about the root of epsilon makes what x is rounded by that much larger.
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5 * (1 + np.abs(factor).max()))
    np.testing.assert_allclose(batch_mean, mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(scale, 1 / root, rtol=1e-4)
    for new, old, now in (
        (new_mean, tensors["mean"], mean),
        (new_variance, tensors["variance"], 1.5 * variance),
    ):
        moved = (1 - MOMENTUM) * old + MOMENTUM * now
        np.testing.assert_allclose(new, moved, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("lanes", [4, 16])
@settings(max_examples=examples(8), deadline=None)
@given(shape=SHAPES, seed=st.integers(0, 99))
@example(shape=THREADED, seed=0)
def test_gradients(dtype: str, lanes: int, shape: tuple[int, int, int], seed: int) -> None:
    tensors = drawn(shape, seed)
    stored = tensors["x"].astype(dtype)
    mean, variance = statistics(stored)
    scale = 1 / np.sqrt(variance + EPSILON)
    kept = [value.astype(np.float32) for value in (mean, scale)]
    found = run_guarded(
        batch_norm_gradient(shape, dtype, lanes),
        [tensors["dy"], stored, tensors["gamma"], *kept],
        results=3,
    )
    wide = [
        torch.tensor(value.astype(np.float64), requires_grad=True)
        for value in (stored, tensors["gamma"], tensors["beta"])
    ]
    x, gamma, beta = wide
    deviation = x - x.mean((0, 2), keepdim=True)
    root = (deviation.square().mean((0, 2), keepdim=True) + EPSILON).sqrt()
    y = deviation / root * gamma[:, None] + beta[:, None]
    y.backward(torch.tensor(tensors["dy"].astype(np.float64)))
    for value, reference in zip(found, wide, strict=True):
        assert reference.grad is not None
        bound = 1e-5 * max(1.0, float(scale.max()))
        np.testing.assert_allclose(value, reference.grad.numpy(), rtol=1e-3, atol=bound * 10)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_gradient_of_some_channels(dtype: str) -> None:
    """Read where they lie, among others."""
    shape, width, first = (3, 4, 37), 9, 3
    tensors = drawn(shape, 0)
    whole = drawn((3, width, 37), 1)["x"].astype(dtype)
    part = np.ascontiguousarray(whole[:, first : first + 4])
    mean, variance = statistics(part)
    kept = [value.astype(np.float32) for value in (mean, 1 / np.sqrt(variance + EPSILON))]
    found, expected = (
        run_guarded(
            batch_norm_gradient(shape, dtype, 16, held=held),
            [tensors["dy"], x, tensors["gamma"], *kept],
            results=3,
        )
        for held, x in (((width, first), whole), (None, part))
    )
    for value, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(value, other)


def test_some_channels_of_others_are_read_where_all_lie() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((3, 9, 37), "float32"))
    with builder.function("main", [x]):
        others = builder.emit(R.strided_slice(x, [1], [2], [8]))
        channels = builder.emit(R.strided_slice(others, [1], [1], [5]))
        apart = builder.emit(R.strided_slice(x, [1], [1], [9], [2]))
        columns = builder.emit(R.strided_slice(x, [2], [1], [9]))
        found = [channels_of(builder, each) for each in (channels, apart, columns)]
        builder.emit_func_output(channels)
    assert found == [(x, 3), (apart, 0), (columns, 0)]


def test_in_double_precision() -> None:
    shape = (3, 2, 75)
    tensors = {name: value.astype(np.float64) for name, value in drawn(shape, 0).items()}
    kernel = batch_norm_kernel(shape, EPSILON, MOMENTUM, 16, "float64")
    read = [tensors[name] for name in ("x", "gamma", "beta", "mean", "variance")]
    y, *_, scale = run_guarded(kernel, read, results=5)
    mean, variance = statistics(tensors["x"])
    np.testing.assert_allclose(scale, 1 / np.sqrt(variance + EPSILON), rtol=1e-12)
    normal = (tensors["x"] - mean[:, None]) * scale[:, None]
    np.testing.assert_allclose(
        y, normal * tensors["gamma"][:, None] + tensors["beta"][:, None], atol=1e-12
    )


def test_a_mean_far_from_zero() -> None:
    """The variance keeps its digits where the mean is thousands of deviations."""
    shape = (3, 2, 75)
    x = (np.random.default_rng(0).standard_normal(shape) + 4096).astype(np.float32)
    ones, zeros = np.ones(2, np.float32), np.zeros(2, np.float32)
    kernel = batch_norm_kernel(shape, EPSILON, MOMENTUM, 16)
    y, *_, scale = run_guarded(kernel, [x, ones, zeros, zeros, ones], results=5)
    mean, variance = statistics(x)
    np.testing.assert_allclose(scale, 1 / np.sqrt(variance + EPSILON), rtol=1e-5)
    expected = (x - mean[None, :, None]) / np.sqrt(variance + EPSILON)[None, :, None]
    np.testing.assert_allclose(y, expected, atol=1e-3)


def test_the_sums_lie_in_registers() -> None:
    """Scratch memory of TVM's runtime would be asked for again for each channel."""
    for kernel in (
        batch_norm_kernel((4, 64, 3136), EPSILON, MOMENTUM, 16),
        batch_norm_gradient((4, 2048, 49), "float32", 16),
    ):
        module = tvm.IRModule({"main": kernel.with_attr("global_symbol", "main")})
        assert "AllocWorkspace" not in tvm.compile(module, HOST).mod.inspect_source("asm")
