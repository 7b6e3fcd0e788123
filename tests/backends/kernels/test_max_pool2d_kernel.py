"""Max pooling in training and its gradient, over drawn windows, against PyTorch."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from odtc.backends.kernels.pool.max_pool2d import max_pool2d, max_pool2d_gradient
from odtc.backends.kernels.pool.max_pool2d_large import large_max_pool2d, large_max_pool2d_gradient
from odtc.backends.kernels.pool.planes import Window
from odtc.dialect.images.max_pool import chosen_dtype
from tests.backends.products.guarded import run_guarded
from tests.fast import examples

SIDE = st.integers(1, 4)
# Some of more than one band.
ROWS = st.one_of(st.integers(4, 12), st.integers(40, 60))
VALUES = {
    "plain": lambda rng, shape: rng.standard_normal(shape),
    "ties": lambda rng, shape: rng.integers(-1, 3, shape),
    "negative": lambda rng, shape: -rng.integers(0, 3, shape),
    "lowest": lambda _, shape: np.full(shape, -np.inf),
    "extremes": lambda rng, shape: rng.choice([-np.inf, -np.inf, -0.0, 0.0, np.inf], shape),
    "not numbers": lambda rng, shape: rng.choice([-1, 1, -np.nan, np.nan, np.inf], shape),
}
# One step of a window leads over two rows of padding.
DILATED = {
    "image": (2, 3, 9, 11),
    "window": (4, 4),
    "stride": (1, 1),
    "pad": (2, 2),
    "dilation": (2, 3),
    "ceil": False,
}
# A window without steps, over several bands of which the last one reaches back.
BANDS = DILATED | {"image": (2, 3, 47, 45), "window": (3, 3), "pad": (1, 1), "dilation": (1, 1)}
STEPPING = BANDS | {"stride": (2, 2), "ceil": True}


@st.composite
def pools(draw) -> dict:
    window = (draw(SIDE), draw(SIDE))
    return {
        "image": (2, 3, draw(ROWS), draw(st.one_of(st.integers(4, 20), st.just(45)))),
        "window": window,
        "stride": (draw(SIDE), draw(SIDE)),
        # PyTorch and ONNX allow at most half a window of padding.
        "pad": tuple(draw(st.integers(0, size // 2)) for size in window),
        "dilation": (draw(st.integers(1, 2)), draw(st.integers(1, 3))),
        "ceil": draw(st.booleans()),
    }


@settings(
    max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.filter_too_much]
)
@given(
    case=pools(),
    kind=st.sampled_from(sorted(VALUES)),
    lanes=st.sampled_from([4, 16]),
    rectifies=st.booleans(),
    is_large=st.booleans(),
)
@example(case=DILATED, kind="lowest", lanes=4, rectifies=False, is_large=False)
@example(case=DILATED, kind="lowest", lanes=4, rectifies=False, is_large=True)
@example(case=BANDS, kind="not numbers", lanes=16, rectifies=False, is_large=False)
@example(case=STEPPING, kind="ties", lanes=4, rectifies=False, is_large=False)
def test_against_pytorch(
    case: dict, kind: str, lanes: int, rectifies: bool, is_large: bool
) -> None:
    rng = np.random.default_rng(0)
    x = torch.tensor(VALUES[kind](rng, case["image"]).astype(np.float32), requires_grad=True)
    geometry = [case[name] for name in ("window", "stride", "pad", "dilation")]
    spans = [(size - 1) * gap + 1 for size, gap in zip(*geometry[::3], strict=True)]
    sizes = zip(case["image"][2:], spans, case["pad"], strict=True)
    assume(all(image + 2 * pad >= span for image, span, pad in sizes))
    data = torch.relu(x) if rectifies else x
    y = torch.nn.functional.max_pool2d(data, *geometry, ceil_mode=case["ceil"])
    dy = rng.standard_normal(y.shape).astype(np.float32)
    y.backward(torch.tensor(dy))
    assert x.grad is not None
    image, out = case["image"][2:], (y.shape[2], y.shape[3])
    steps = (case[name] for name in ("window", "stride", "dilation", "pad"))
    window = Window(image, out, *steps)
    if is_large:
        forward = large_max_pool2d((2, 3), window, rectifies=rectifies)
        backward = large_max_pool2d_gradient((2, 3), window)
    else:
        forward = max_pool2d((2, 3), window, lanes, rectifies=rectifies)
        backward = max_pool2d_gradient((2, 3), window, lanes)
    pooled, chosen = run_guarded(forward, [x.detach().numpy()], results=2)
    np.testing.assert_array_equal(pooled, y.detach().numpy())
    (found,) = run_guarded(backward, [dy, chosen])
    np.testing.assert_allclose(found, x.grad.numpy(), atol=1e-6)


@pytest.mark.parametrize("kind", ["ties", "extremes", "not numbers"])
def test_more_taps_than_are_spelled_out(kind: str) -> None:
    rng = np.random.default_rng(0)
    values = VALUES[kind](rng, (1, 2, 11, 14)).astype(np.float32)
    window = Window((11, 14), (5, 6), (9, 10), (2, 3), (1, 1), (4, 5))
    assert not window.is_small
    x = torch.tensor(values, requires_grad=True)
    y = torch.nn.functional.max_pool2d(x, (9, 10), (2, 3), (4, 5), ceil_mode=True)[..., :5, :6]
    assert y.shape[2:] == (5, 6)
    dy = rng.standard_normal(y.shape).astype(np.float32)
    y.backward(torch.tensor(dy))
    assert x.grad is not None
    pooled, chosen = run_guarded(max_pool2d((1, 2), window, 4), [values], results=2)
    np.testing.assert_array_equal(pooled, y.detach().numpy())
    (found,) = run_guarded(large_max_pool2d_gradient((1, 2), window), [dy, chosen])
    np.testing.assert_allclose(found, x.grad.numpy(), atol=1e-6)


@pytest.mark.parametrize("lanes", [4, 16])
@pytest.mark.parametrize("image", [(3, 5), (6, 9), (9, 13)])
def test_what_is_not_a_number_is_found_wherever_it_is(image: tuple[int, int], lanes: int) -> None:
    """One element of each plane, each in another place."""
    places = image[0] * image[1]
    x = np.ones((1, places, *image), np.float32)
    x.reshape(places, places)[np.diag_indices(places)] = np.nan
    out = (image[0] - 1) // 2, (image[1] - 1) // 2
    window = Window(image, out, (2, 3), (2, 2), (1, 1), (0, 0))
    pooled, _ = run_guarded(max_pool2d((1, places), window, lanes), [x], results=2)
    wanted = torch.nn.functional.max_pool2d(torch.tensor(x), (2, 3), 2)[..., : out[0], : out[1]]
    np.testing.assert_array_equal(pooled, wanted.numpy())


def numbers(window: tuple[int, int]) -> np.ndarray:
    """Which element is chosen of one window that is the image, whose last one is the largest."""
    x = np.arange(np.prod(window), dtype=np.float32).reshape(1, 1, *window)
    every = Window(window, (1, 1), window, (1, 1), (1, 1), (0, 0))
    _, chosen = run_guarded(large_max_pool2d((1, 1), every), [x], results=2)
    return chosen


@pytest.mark.parametrize(
    ("window", "dtype"),
    [((15, 17), "uint8"), ((16, 16), "uint16"), ((255, 257), "uint16"), ((256, 256), "int32")],
)
def test_the_smallest_type_that_holds_all_numbers(window: tuple[int, int], dtype: str) -> None:
    assert chosen_dtype(window[0] * window[1]) == dtype
    chosen = numbers(window)
    assert chosen.dtype == dtype
    assert chosen.item() == window[0] * window[1] - 1


@pytest.mark.parametrize("is_large", [False, True])
def test_a_window_in_the_padding_alone_chooses_nothing(is_large: bool) -> None:
    """A dilated window may step over the whole image."""
    window = Window((1, 1), (1, 1), (2, 2), (1, 1), (2, 2), (1, 1))
    x, dy = np.ones((1, 1, 1, 1), np.float32), np.ones((1, 1, 1, 1), np.float32)
    if is_large:
        kernels = large_max_pool2d((1, 1), window), large_max_pool2d_gradient((1, 1), window)
    else:
        kernels = max_pool2d((1, 1), window, 4), max_pool2d_gradient((1, 1), window, 4)
    pooled, chosen = run_guarded(kernels[0], [x], results=2)
    assert pooled.item() == -np.inf
    assert run_guarded(kernels[1], [dy, chosen])[0].item() == 0
