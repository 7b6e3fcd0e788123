"""Attention and its gradient against PyTorch in double precision."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from odtc.backends.caches import caches_of
from odtc.backends.kernels.attention.backward import attention_gradient
from odtc.backends.kernels.attention.forward import attention_kernel
from odtc.backends.kernels.attention.layout import Heads
from odtc.backends.kernels.product.tile import machine_of
from odtc.backends.vector_math import register_vector_math
from tests.backends.products.guarded import run_guarded
from tests.fast import examples, fast_if
from tests.numeric.conftest import relative_error

Arrays = list[np.ndarray]
Sizes = tuple[int, int, int, int, int, int]
BOTH, OUTER, INNER = (True, False, True, False), (False,) * 4, (True,) * 4


def heads_of(sizes: Sizes, mask: str = "", **options) -> Heads:
    """An attention; the mask has a letter for each of its dimensions that is not broadcast."""
    shape = tuple(
        size if letter in mask else 1 for letter, size in zip("bhqk", sizes[:4], strict=True)
    )
    plain: dict[str, Any] = {"inner": BOTH, "scale": sizes[4] ** -0.5}
    plain |= {"replaces": False, "safe": False}
    return Heads(*sizes, mask=shape if mask else (), **(plain | options))


@dataclass(frozen=True)
class Drawn:
    """An attention with tensors, as their layout has it."""

    heads: Heads
    operands: Arrays
    mask: Arrays
    dy: np.ndarray

    @staticmethod
    def of(heads: Heads, seed: int = 0, spread: float = 1.0) -> "Drawn":
        rng = np.random.default_rng(seed)
        shapes = [
            (heads.queries, heads.width),
            (heads.keys, heads.width),
            (heads.keys, heads.depth),
            (heads.queries, heads.depth),
        ]
        *operands, dy = (
            rng.standard_normal(
                (heads.batch, steps, heads.heads, size)
                if inner
                else (heads.batch, heads.heads, steps, size)
            ).astype(np.float32)
            for (steps, size), inner in zip(shapes, heads.inner, strict=True)
        )
        operands[0] *= np.float32(spread)
        if not heads.mask:
            return Drawn(heads, operands, [], dy)
        mask = rng.standard_normal(heads.mask).astype(np.float32)
        if heads.replaces:
            mask = np.where(rng.random(heads.mask) < 0.4, np.float32(-1e4), np.float32(0))
        else:
            # Every query sees a key.
            hidden = rng.random(heads.mask) < 0.4
            hidden[..., 0] = False
            mask[hidden] = -np.inf
        return Drawn(heads, operands, [mask], dy)

    def reference(self) -> tuple[np.ndarray, Arrays]:
        """The result, and the gradients of queries, keys and values."""
        inner = self.heads.inner
        leaves = [torch.tensor(a.astype(np.float64), requires_grad=True) for a in self.operands]
        q, k, v = (
            leaf.transpose(1, 2) if inside else leaf
            for leaf, inside in zip(leaves, inner, strict=False)
        )
        scores = q @ k.transpose(2, 3) * self.heads.scale
        if self.mask:
            mask = torch.tensor(self.mask[0].astype(np.float64))
            scores = torch.where(mask == 0, scores, mask) if self.heads.replaces else scores + mask
        result = scores.softmax(-1) @ v
        if inner[3]:
            result = result.transpose(1, 2)
        gradients = torch.autograd.grad(result, leaves, torch.tensor(self.dy.astype(np.float64)))
        return result.detach().numpy(), [each.numpy() for each in gradients]

    def forward(self, lanes: int) -> Arrays:
        register_vector_math()
        kernel = attention_kernel(self.heads, machine_of(32 * lanes))
        return run_guarded(kernel, [*self.operands, *self.mask], 3)

    def backward(self, lanes: int, results: Arrays, dtype: str = "float32") -> Arrays:
        register_vector_math()
        out, *numbers = results
        kept = [each.astype(dtype) for each in (*self.operands, out)]
        kernel = attention_gradient(self.heads, [dtype] * 4, machine_of(32 * lanes))
        return run_guarded(kernel, [self.dy, *kept, *numbers, *self.mask], 3)


def check(drawn: Drawn, lanes: int, bound: float = 1e-5) -> None:
    expected, gradients = drawn.reference()
    results = drawn.forward(lanes)
    assert relative_error(results[0], expected) < bound
    for found, gradient in zip(drawn.backward(lanes, results), gradients, strict=True):
        assert relative_error(found, gradient) < bound


@settings(max_examples=examples(8), deadline=None)
@given(
    sizes=st.tuples(
        *(st.integers(1, 2), st.integers(1, 3), st.integers(1, 150), st.integers(1, 150)),
        *(st.sampled_from([5, 8, 16, 20, 33, 64, 128]),) * 2,
    ),
    lanes=st.sampled_from([4, 8, 16]),
    inner=st.tuples(*(st.booleans(),) * 4),
    mask=st.sampled_from(["", "k", "bk", "qk", "bqk", "hqk", "bhqk"]),
    replaces=st.booleans(),
    safe=st.booleans(),
    seed=st.integers(0, 99),
)
# Several blocks of queries and of keys, none of them full; steps that lie a page apart.
@example(
    sizes=(1, 2, 197, 515, 32, 32),
    lanes=16,
    inner=INNER,
    mask="bqk",
    replaces=False,
    safe=True,
    seed=0,
)
@example(
    sizes=(1, 64, 70, 67, 16, 16),
    lanes=8,
    inner=INNER,
    mask="",
    replaces=False,
    safe=False,
    seed=1,
)
@example(
    sizes=(1, 1, 150, 300, 20, 24),
    lanes=4,
    inner=OUTER,
    mask="k",
    replaces=True,
    safe=False,
    seed=2,
)
def test_values_and_gradients(sizes, lanes, inner, mask, replaces, safe, seed) -> None:
    options = {"inner": inner, "replaces": replaces and bool(mask), "safe": safe}
    check(Drawn.of(heads_of(sizes, mask, **options), seed), lanes)


def test_scores_far_apart() -> None:
    """The largest grows from block to block by more than what a power can hold."""
    drawn = Drawn.of(heads_of((1, 1, 40, 520, 16, 16)), spread=60.0)
    drawn.operands[1][...] *= np.linspace(0.1, 1, 520, dtype=np.float32)[:, None]
    check(drawn, 16, 5e-5)


def test_a_core_in_order_adds_up_the_same() -> None:
    """It takes powers in another order than others do, each query's in that of its keys."""
    drawn = Drawn.of(heads_of((1, 2, 70, 300, 16, 16)))
    usual, narrow = (
        machine_of(128, caches=caches_of([core])) for core in ("cortex-a76", "cortex-a55")
    )
    register_vector_math()
    found = [
        run_guarded(attention_kernel(drawn.heads, machine), drawn.operands, 3)
        for machine in (usual, narrow)
    ]
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_gradients_from_half_precision() -> None:
    """Saved tensors may be stored in half precision."""
    drawn = Drawn.of(heads_of((2, 2, 37, 45, 16, 24), "bqk"))
    _, gradients = drawn.reference()
    results = drawn.forward(16)
    for found, gradient in zip(drawn.backward(16, results, "float16"), gradients, strict=True):
        assert relative_error(found, gradient) < 5e-3


@pytest.mark.parametrize("keys", fast_if(lambda keys: keys == 20, [20, 300]))
@pytest.mark.parametrize("lowest", [-np.inf, np.finfo(np.float32).min])
def test_queries_that_see_nothing(keys: int, lowest: float) -> None:
    """Minus infinity gives NaN, or zeros in the kernel that is safe; the lowest number a mean."""
    rows = [3, 11]
    found = {}
    for safe in (False, True):
        drawn = Drawn.of(heads_of((1, 2, 33, keys, 16, 16), "qk", safe=safe, inner=OUTER))
        drawn.mask[0][...] = 0
        drawn.mask[0][0, 0, rows] = lowest
        results = drawn.forward(16)
        found[safe] = [results[0], *drawn.backward(16, results)]
        if np.isfinite(lowest):
            check(drawn, 16)
            mean = np.broadcast_to(drawn.operands[2].mean(2, keepdims=True), (1, 2, 2, 16))
            np.testing.assert_allclose(results[0][:, :, rows], mean, atol=1e-6)
    if np.isinf(lowest):
        out, dq, dk, dv = found[False]
        assert np.isnan(out[:, :, rows]).all()
        assert np.isnan(dq[:, :, rows]).all()
        assert np.isnan(dk).all()
        assert np.isnan(dv).all()
        assert np.isfinite(np.delete(out, rows, 2)).all()
        out, dq, dk, dv = found[True]
        assert not out[:, :, rows].any()
        assert not dq[:, :, rows].any()
        # The others are as if those were not there.
        drawn = Drawn.of(heads_of((1, 2, 33, keys, 16, 16), inner=OUTER))
        drawn.dy[:, :, rows] = 0
        _, (dq_, dk_, dv_) = drawn.reference()
        for value, reference in ((dk, dk_), (dv, dv_), (dq, dq_)):
            assert relative_error(value, reference) < 1e-5


def test_a_nan_stays_in_its_row() -> None:
    for safe in (False, True):
        drawn = Drawn.of(heads_of((1, 1, 9, 20, 8, 8), safe=safe, inner=OUTER))
        drawn.operands[0][0, 0, 4, 2] = np.nan
        out = drawn.forward(16)[0][0, 0]
        assert np.isfinite(np.delete(out, 4, 0)).all()
        assert (out[4] == 0).all() if safe else np.isnan(out[4]).all()


def _causal(queries: int, keys: int) -> np.ndarray:
    return np.arange(keys) > np.arange(queries)[:, None] + keys - queries


# Which keys are hidden from which queries.
HIDDEN = {
    "causal": _causal,
    "window": lambda q, k: _causal(q, k) | (np.arange(k) <= np.arange(q)[:, None] + k - q - 40),
    "padded behind": lambda q, k: _causal(q, k) | (np.arange(k) >= k - 61),
    # The first queries see no key at all.
    "padded in front": lambda q, k: _causal(q, k) | (np.arange(k) < 70),
}


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize(
    "sizes",
    fast_if(
        lambda sizes: sizes[2] == 197,
        [(1, 2, 197, 197, 16, 16), (1, 1, 150, 300, 20, 24), (2, 1, 520, 520, 16, 33)],
    ),
)
@pytest.mark.parametrize("lanes", [4, 16])
def test_masks_of_language_models(hidden: str, sizes: Sizes, lanes: int) -> None:
    drawn = Drawn.of(heads_of(sizes, "qk"))
    drawn.mask[0][0, 0] = np.where(
        HIDDEN[hidden](*sizes[2:4]), np.finfo(np.float32).min, np.float32(0)
    )
    check(drawn, lanes)


@pytest.mark.parametrize("mask", ["bk", "bqk"])
def test_nothing_is_computed_of_keys_that_no_query_sees(mask: str) -> None:
    """What lies there may be anything: it would be NaN in the results."""
    drawn = Drawn.of(heads_of((2, 2, 100, 300, 16, 16), mask, inner=OUTER))
    drawn.mask[0][...] = 0
    drawn.mask[0][0, ..., 150:] = -np.inf
    check(drawn, 16)
    for operand in drawn.operands[1:]:
        operand[0, :, 200:] = np.nan
    results = drawn.forward(16)
    for found in (results[0], *drawn.backward(16, results)):
        assert np.isfinite(found).all()
