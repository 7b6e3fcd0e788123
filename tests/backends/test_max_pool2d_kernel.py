"""The gradient of max pooling, over drawn windows, against PyTorch."""

import numpy as np
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from odtc.backends.kernels.max_pool2d import max_pool2d_gradient
from odtc.backends.kernels.max_pool2d_large import max_pool2d_gradient_of_large_windows
from odtc.backends.kernels.planes import Window
from tests.backends.guarded import run_guarded

SIDE = st.integers(1, 4)
VALUES = {
    "plain": lambda rng, shape: rng.standard_normal(shape),
    "ties": lambda rng, shape: rng.integers(0, 3, shape),
    "extremes": lambda rng, shape: rng.choice([-np.inf, -np.inf, -0.0, 0.0, np.inf], shape),
}


@st.composite
def pools(draw) -> dict:
    window = (draw(SIDE), draw(SIDE))
    return {
        "image": (2, 3, draw(st.integers(4, 12)), draw(st.integers(4, 12))),
        "window": window,
        "stride": (draw(SIDE), draw(SIDE)),
        # PyTorch and ONNX allow at most half a window of padding.
        "pad": tuple(draw(st.integers(0, size // 2)) for size in window),
        "dilation": (draw(st.integers(1, 2)), draw(st.integers(1, 3))),
        "ceil": draw(st.booleans()),
    }


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(case=pools(), kind=st.sampled_from(sorted(VALUES)), lanes=st.sampled_from([4, 16]))
def test_against_pytorch(case: dict, kind: str, lanes: int) -> None:
    rng = np.random.default_rng(0)
    values = VALUES[kind](rng, case["image"])
    x = torch.tensor(values.astype(np.float32), requires_grad=True)
    geometry = [case[name] for name in ("window", "stride", "pad", "dilation")]
    spans = [(size - 1) * gap + 1 for size, gap in zip(*geometry[::3], strict=True)]
    sizes = zip(case["image"][2:], spans, case["pad"], strict=True)
    assume(all(image + 2 * pad >= span for image, span, pad in sizes))
    y = torch.nn.functional.max_pool2d(x, *geometry, ceil_mode=case["ceil"])
    dy = rng.standard_normal(y.shape).astype(np.float32)
    y.backward(torch.tensor(dy))
    assert x.grad is not None
    samples, channels, *image = case["image"]
    planes = samples * channels
    steps = (case[name] for name in ("window", "stride", "dilation", "pad"))
    window = Window((image[0], image[1]), (y.shape[2], y.shape[3]), *steps)
    kernels = [
        max_pool2d_gradient(planes, window, lanes),
        max_pool2d_gradient_of_large_windows(planes, window),
    ]
    tensors = [
        dy.reshape(planes, *y.shape[2:]),
        x.detach().numpy().reshape(planes, *image),
    ]
    for kernel in kernels:
        (found,) = run_guarded(kernel, tensors)
        np.testing.assert_allclose(found.reshape(case["image"]), x.grad.numpy(), atol=1e-6)
