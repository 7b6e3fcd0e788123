"""Convolutions in groups on a GPU, in strips, against PyTorch, on this machine's devices."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odtc.backends.gpu.machine import LARGE, Gpu
from tests.fast import examples
from tests.gpu.on_device import KINDS
from tests.gpu.one_product import MACHINES, noise, product


def check(
    kind: str, gpu: Gpu, image: Sequence[int], filters: Sequence[int], **window: Sequence[int]
) -> None:
    """Compares a convolution and both of its gradients; `filters` are groups, and of a group."""
    groups, of_group = filters
    stride, gap, pad = (window[name] for name in ("stride", "dilation", "padding"))
    x = torch.tensor(noise(*image), requires_grad=True)
    shape = groups * of_group, image[1] // groups, *window["kernel"]
    w = torch.tensor(noise(*shape), requires_grad=True)
    y = F.conv2d(x, w, None, tuple(stride), tuple(pad), tuple(gap), groups)
    dy = noise(*y.shape)
    y.backward(torch.tensor(dy))
    assert x.grad is not None
    assert w.grad is not None
    numbers = [
        number
        for i in (0, 1)
        for number in (
            image[2 + i], window["kernel"][i], stride[i], gap[i], pad[i], y.shape[2 + i]
        )
    ]  # fmt: skip
    data, weight = x.detach().numpy(), w.detach().numpy()
    cases = {
        "grouped-convolution": ([data, weight], y.detach()),
        "grouped-data-gradient": ([dy, weight], x.grad),
        "grouped-weight-gradient": ([data, dy], w.grad),
    }
    for family, (arrays, expected) in cases.items():
        if "data" in family and any(s > 1 and d > 1 for s, d in zip(stride, gap, strict=True)):
            continue
        found = product(kind, family, numbers, arrays, tuple(expected.shape), gpu)
        assert np.isfinite(found).all()
        most = np.abs(expected.numpy()).max()
        np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-4 * most)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(6), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 2), st.integers(1, 4)),
    st.tuples(st.integers(4, 19), st.integers(4, 9)),
    st.tuples(*[st.integers(1, 3)] * 4),
    st.tuples(*[st.integers(1, 2)] * 2, *[st.integers(0, 2)] * 2),
    st.sampled_from(sorted(MACHINES)),
    st.sampled_from([{}, {"rows": (6,)}, {"rows": (4,)}]),
)
def test_any(
    kind: str,
    sizes: tuple[int, int, int, int],
    plane: tuple[int, int],
    window: tuple[int, int, int, int],
    more: tuple[int, int, int, int],
    machine: str,
    told: dict[str, tuple[int]],
) -> None:
    batch, groups, channels, filters = sizes
    gpu, _ = MACHINES[machine].telling(told)
    kernel, stride = window[:2], window[2:]
    gap = tuple(
        d if k > 1 and (k - 1) * d < 4 else 1 for k, d in zip(kernel, more[:2], strict=True)
    )
    image = batch, groups * channels, *plane
    check(
        kind, gpu, image, (groups, filters), kernel=kernel, stride=stride, dilation=gap,
        padding=more[2:],
    )  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "case",
    [
        # Whole strips; several parts, whose last items have none; a plane of one strip.
        ("large", (2, 3, 28, 28), (3, 1), 3, 1),
        ("phone", (3, 2, 19, 40), (2, 4), 3, 2),
        ("large", (5, 1, 61, 67), (1, 1), 3, 1),
        ("mali-g76", (2, 5, 7, 7), (5, 1), 5, 1),
        # An image's colours, and a stride beyond the window.
        ("large", (2, 3, 21, 18), (1, 8), 3, 2),
        ("phone", (1, 4, 11, 9), (4, 1), 2, 3),
    ],
    ids=str,
)
def test_shapes(
    kind: str, case: tuple[str, tuple[int, int, int, int], tuple[int, int], int, int]
) -> None:
    machine, image, filters, kernel, stride = case
    same = {"kernel": kernel, "stride": stride, "dilation": 1, "padding": kernel // 2}
    check(kind, MACHINES[machine], image, filters, **{of: (n, n) for of, n in same.items()})


@pytest.mark.parametrize("kind", KINDS)
def test_what_no_window_reads_is_in_no_sum(kind: str) -> None:
    """Strips read on past the last result, and items side by side by taps of other columns."""
    image, gpu = noise(2, 2, 12, 12), LARGE.telling({"rows": (4,)})[0]
    image[:, :, 11], image[:, :, :, 11] = np.inf, np.nan
    numbers = [12, 3, 2, 1, 0, 5] * 2
    slope, weight = noise(2, 2, 5, 5), noise(2, 1, 3, 3)
    slope[0, 1, 2, 3] = np.inf
    for family, arrays, out in (
        ("grouped-convolution", [image, weight], (2, 2, 5, 5)),
        ("grouped-weight-gradient", [image, np.where(np.isinf(slope), 0, slope)], (2, 1, 3, 3)),
    ):
        assert np.isfinite(product(kind, family, numbers, arrays, out, gpu)).all()
    found = product(kind, "grouped-data-gradient", numbers, [slope, weight], (2, 2, 12, 12), gpu)
    spread = np.zeros_like(image, dtype=bool)
    spread[0, 1, 4:7, 6:9] = True
    np.testing.assert_array_equal(~np.isfinite(found), spread)
