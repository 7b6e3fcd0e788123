"""Average pooling and its gradient, over drawn windows, against PyTorch in float64."""

import numpy as np
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from odtc.backends.kernels.pool.avg_pool2d import avg_pool2d, avg_pool2d_gradient
from odtc.backends.kernels.pool.planes import Window
from tests.backends.products.guarded import run_guarded
from tests.fast import examples

SIDE = st.integers(1, 4)


@st.composite
def pools(draw) -> dict:
    window = (draw(SIDE), draw(SIDE))
    return {
        "image": (draw(st.integers(1, 25)), draw(st.integers(1, 25))),
        "window": window,
        "stride": (draw(SIDE), draw(SIDE)),
        "pad": tuple(draw(st.integers(0, size // 2)) for size in window),
    }


@settings(max_examples=examples(25), deadline=None)
@given(
    case=pools(),
    with_padding=st.booleans(),
    lanes=st.sampled_from([4, 16]),
    dtype=st.sampled_from(["float32", "float16"]),
)
def test_against_pytorch(case: dict, with_padding: bool, lanes: int, dtype: str) -> None:
    sizes = zip(case["image"], case["window"], case["pad"], strict=True)
    assume(all(image + 2 * pad >= window for image, window, pad in sizes))
    rng = np.random.default_rng(0)
    shape = (2, 3, *case["image"])
    data = rng.standard_normal(shape).astype(dtype)
    x = torch.tensor(data.astype(np.float64), requires_grad=True)
    y = torch.nn.functional.avg_pool2d(
        x, case["window"], case["stride"], case["pad"], count_include_pad=with_padding
    )
    dy = rng.standard_normal(y.shape).astype(dtype)
    y.backward(torch.tensor(dy.astype(np.float64)))
    assert x.grad is not None
    out = (y.shape[2], y.shape[3])
    window = Window(case["image"], out, case["window"], case["stride"], (1, 1), case["pad"])
    (pooled,) = run_guarded(avg_pool2d((2, 3), window, lanes, dtype, with_padding), [data])
    np.testing.assert_allclose(pooled, y.detach().numpy(), rtol=1e-5, atol=1e-6)
    (back,) = run_guarded(avg_pool2d_gradient((2, 3), window, lanes, dtype, with_padding), [dy])
    np.testing.assert_allclose(back, x.grad.numpy(), rtol=1e-5, atol=1e-6)
