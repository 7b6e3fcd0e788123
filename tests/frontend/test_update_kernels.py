"""The update kernels on random gradients, over shapes and options, against references."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
import tvm
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import odtc
from odtc.backends.targets import parse_target
from odtc.backends.vector_math import register_vector_math
from odtc.frontend.optimizers.groups import ParameterRule
from odtc.frontend.optimizers.table import OPTIMIZERS
from odtc.frontend.updates import update_kernels
from odtc.frontend.updates.control_kernels import (
    NOT_FINITE,
    SQUARES,
    TOTAL,
    rescale_kernel,
    total_kernel,
)
from odtc.frontend.updates.elementwise import PARALLEL_ELEMENTS
from tests.fast import examples
from tests.frontend.update_references import CASES, LR, Case, by_torch, lamb

UPDATES = 20
# One block of rows, several of them with one that is not full, and none at all to cut.
LARGE = (PARALLEL_ELEMENTS // 100 + 7, 101)
FEW = settings(max_examples=examples(8), deadline=None, suppress_health_check=list(HealthCheck))


def compiled(kernel: tvm.tirx.PrimFunc) -> tvm.runtime.Module:
    register_vector_math()
    target = parse_target("host-cpu").resolved().to_tvm()
    with target:
        module = tvm.IRModule({"main": kernel.with_attr("global_symbol", "main")})
        return tvm.compile(module, target)["main"]


def device(value: np.ndarray, dtype: str = "float32") -> tvm.runtime.Tensor:
    return tvm.runtime.tensor(np.asarray(value, dtype))


def random_run(
    shape: Sequence[int], updates: int = UPDATES, seed: int = 0
) -> tuple[np.ndarray, list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    start, *gradients = rng.standard_normal((1 + updates, *shape), dtype=np.float32)
    return start, gradients


def trained(case_optimizer, start: np.ndarray, gradients: Sequence[np.ndarray]) -> np.ndarray:
    """The weight after the kernel ran once for each gradient."""
    kernel = compiled(update_kernels.update_kernel(ParameterRule(case_optimizer), start.shape))
    changed = [
        device(start),
        *(device(np.full(start.shape, value)) for value in case_optimizer.slots.values()),
    ]
    for step, gradient in enumerate(gradients):
        kernel(*changed, device(gradient), device(LR), device(step, "int32"), device(0.0))
    return changed[0].numpy()


def assert_close(value: np.ndarray, expected: np.ndarray, start: np.ndarray) -> None:
    """Compares what was added to the weight, beside its own rounding at each update."""
    moved = np.abs(expected - start).max()
    rounding = UPDATES * np.finfo(np.float32).eps * np.abs(expected).max()
    np.testing.assert_allclose(value, expected, rtol=0, atol=2e-6 * moved + rounding)


@pytest.mark.parametrize("name", CASES)
def test_against_reference(name: str) -> None:
    case = CASES[name]
    start, gradients = random_run((5, 3, 7))
    assert_close(trained(case.optimizer, start, gradients), case.reference(start, gradients), start)


def test_every_optimizer_has_a_case() -> None:
    assert {case.optimizer.name for case in CASES.values()} == OPTIMIZERS.keys()


@pytest.mark.parametrize("name", ["adamw", "lamb", "rmsprop, centered"])
def test_large_shapes(name: str) -> None:
    case: Case = CASES[name]
    start, gradients = random_run(LARGE, 3)
    assert_close(trained(case.optimizer, start, gradients), case.reference(start, gradients), start)


shapes = st.lists(st.integers(1, 9), min_size=1, max_size=4).map(tuple)
fractions = st.floats(0.0, 0.99)
decays = st.one_of(st.just(0.0), st.floats(1e-4, 0.5))


@given(shape=shapes, momentum=fractions, decay=decays, nesterov=st.booleans(), seed=st.integers(0))
@FEW
def test_sgd_options(shape, momentum, decay, nesterov, seed) -> None:
    nesterov = nesterov and momentum > 0
    optimizer = odtc.SGD(momentum=momentum, weight_decay=decay, nesterov=nesterov)
    reference = by_torch(torch.optim.SGD, momentum=momentum, weight_decay=decay, nesterov=nesterov)
    start, gradients = random_run(shape, 6, seed)
    assert_close(trained(optimizer, start, gradients), reference(start, gradients), start)


@given(shape=shapes, beta1=fractions, beta2=fractions, decay=decays, seed=st.integers(0))
@FEW
def test_adamw_options(shape, beta1, beta2, decay, seed) -> None:
    optimizer = odtc.AdamW(beta1=beta1, beta2=beta2, weight_decay=decay, eps=1e-4)
    reference = by_torch(torch.optim.AdamW, betas=(beta1, beta2), weight_decay=decay, eps=1e-4)
    start, gradients = random_run(shape, 6, seed)
    assert_close(trained(optimizer, start, gradients), reference(start, gradients), start)


@given(shape=shapes, beta1=fractions, decay=decays, seed=st.integers(0))
@FEW
def test_lamb_options(shape, beta1, decay, seed) -> None:
    optimizer = odtc.LAMB(beta1=beta1, weight_decay=decay, eps=1e-4)
    start, gradients = random_run(shape, 6, seed)
    expected = lamb(beta1, 0.999, 1e-4, decay)(start, gradients)
    assert_close(trained(optimizer, start, gradients), expected, start)


def test_lamb_moves_a_parameter_of_zeros() -> None:
    start, gradients = random_run((4, 4), 2)
    start[:] = 0.0
    expected = lamb(0.9, 0.999, 1e-6, 0.01)(start, gradients)
    assert np.abs(expected).min() > 0
    assert_close(trained(odtc.LAMB(), start, gradients), expected, start)


def test_the_variance_of_a_steady_gradient_is_not_negative() -> None:
    """It is a difference that rounds to either side of 0, and then its root is taken."""
    start, (gradient,) = random_run((64,), 1)
    found = trained(odtc.RMSProp(alpha=0.5, centered=True, eps=1e-2), start, [gradient] * 60)
    assert np.isfinite(found).all()


def test_bias_correction_keeps_its_digits() -> None:
    """`1 - beta ** t` cancels in float32: at 0.9999 and t = 1 it would keep three digits."""
    start, gradients = random_run((64,), 2)
    optimizer = odtc.Adam(beta1=0.9999, beta2=0.99999)
    expected = by_torch(torch.optim.Adam, betas=(0.9999, 0.99999))(start, gradients)
    assert_close(trained(optimizer, start, gradients), expected, start)


@pytest.mark.parametrize("clip_value", [None, 0.3])
@pytest.mark.parametrize("applies", [0.0, 1.0])
def test_control_and_average(applies: float, clip_value: float | None) -> None:
    rule = ParameterRule(odtc.SGD(momentum=0.5), lr_factor=3.0)
    start, (momentum, average, g) = random_run((6, 5), 3)
    kernel = compiled(
        update_kernels.update_kernel(
            rule, start.shape, controlled=True, clip_value=clip_value, ema=0.75
        )
    )
    changed = [device(start), device(momentum), device(average)]
    kernel(*changed, device(g), device(0.1), device([applies, 0.25, 7.0]), device(0.0))
    scaled = 0.25 * g if clip_value is None else np.clip(0.25 * g, -clip_value, clip_value)
    v = 0.5 * momentum + scaled
    w = start - 0.3 * v
    expected = [w, v, average + 0.25 * (w - average)] if applies else [start, momentum, average]
    for value, wanted in zip(changed, expected, strict=True):
        np.testing.assert_allclose(value.numpy(), wanted, rtol=1e-5, atol=1e-6)


def test_clipping_by_value_passes_nan_on() -> None:
    kernel = compiled(update_kernels.update_kernel(ParameterRule(odtc.SGD()), (3,), clip_value=1.0))
    w = device(np.zeros(3))
    kernel(w, device([math.nan, math.inf, -0.5]), device(1.0), device(0, "int32"), device(0.0))
    np.testing.assert_array_equal(w.numpy(), np.float32([math.nan, -1.0, 0.5]))


def test_accumulator_is_emptied_by_the_first_micro_batch() -> None:
    kernel = compiled(update_kernels.accumulate_kernel((4,), 3))
    accumulator = device([math.inf, math.nan, 5.0, 5.0])
    for step in range(6, 9):
        kernel(accumulator, device([1.0, 2.0, 3.0, 4.0]), device(step, "int32"))
    np.testing.assert_array_equal(accumulator.numpy(), np.float32([3, 6, 9, 12]))


@given(
    shape=shapes, seed=st.integers(0), bad=st.sampled_from([None, math.inf, -math.inf, math.nan])
)
@FEW
def test_total(shape, seed, bad) -> None:
    check_total(shape, seed, bad)


def test_total_of_a_large_gradient() -> None:
    check_total(LARGE, 0, None)
    check_total(LARGE, 0, math.nan)


def test_the_loss_scale_stays_a_normal_number() -> None:
    kernel = compiled(rescale_kernel(odtc.LossScale(), 1))
    smallest = np.finfo(np.float32).tiny
    scale, good, updates = device(1.5 * smallest), device(3, "int32"), device(7, "int32")
    for _ in range(2):
        kernel(scale, good, updates, device([math.inf, 1.0]), device(0, "int32"))
    assert [each.numpy() for each in (scale, good, updates)] == [smallest, 0, 7]


def check_total(shape: Sequence[int], seed: int, bad: float | None) -> None:
    _, (g,) = random_run(shape, 1, seed)
    if bad is not None:
        g.flat[-1] = bad
    kernel, total = compiled(total_kernel(tuple(shape), 2, scaled=False)), device(np.zeros(TOTAL))
    kernel(device(g), device([10.0, 1.0]), device(3, "int32"), total)
    assert total.numpy()[NOT_FINITE] == (1 if bad is None else 2)
    if bad is None:
        expected = 10 + np.square(g, dtype=np.float64).sum()
        np.testing.assert_allclose(total.numpy()[SQUARES], expected, rtol=1e-6)
    # Not the last of its two micro-batches.
    kernel(device(g), device([10.0, 1.0]), device(4, "int32"), total)
    np.testing.assert_array_equal(total.numpy(), np.float32([10.0, 1.0]))
