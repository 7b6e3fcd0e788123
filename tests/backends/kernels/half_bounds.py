"""How exact products are that multiply float16 and add up short runs of it."""

import numpy as np
import torch

# Half the distance from 1 to the next float16.
UNIT = 2.0**-11
# What a result may be wrong by, in units of the root of the sum of its squared terms. Of terms
# around zero, rounding operands makes 0.8 in the root mean square, and a run of 64 terms about 2.4;
# one term that is missing among 600 makes 50. The bound that always holds, `(2 + RUN) * UNIT` times
# the sum of magnitudes, would not see that.
AT_MOST, ON_AVERAGE = 32, 4

Reference = tuple[np.ndarray, np.ndarray]


def assert_as_exact_as_half(value: np.ndarray, exact: np.ndarray, squares: np.ndarray) -> None:
    """Compares a product of operands that are drawn around zero.

    Args:
        value: what a kernel gives.
        exact: in float64.
        squares: the same product of squared operands.
    """
    error = np.abs(value - exact) / np.maximum(np.sqrt(squares) * UNIT, 1e-6)
    assert error.max() <= AT_MOST, error.max()
    assert np.sqrt((error**2).mean()) <= ON_AVERAGE


def convolution_references(
    case: dict, x: np.ndarray, w: np.ndarray, dy: np.ndarray
) -> list[Reference]:
    """The convolution, and the gradients of its data and weights, each with that of the squares."""
    plain, squared = (
        _gradients(case, *(a.astype(np.float64) ** p for a in (x, w, dy))) for p in (1, 2)
    )
    return list(zip(plain, squared, strict=True))


def _gradients(case: dict, *arrays: np.ndarray) -> list[np.ndarray]:
    x, w, dy = (torch.tensor(array, requires_grad=i < 2) for i, array in enumerate(arrays))
    steps = {key: case[key] for key in ("stride", "dilation", "groups", "padding") if key in case}
    top, left, bottom, right = case.get("pad", (0, 0, 0, 0))
    y = torch.nn.functional.conv2d(
        torch.nn.functional.pad(x, (left, right, top, bottom)), w, **steps
    )
    y.backward(dy)
    assert x.grad is not None
    assert w.grad is not None
    return [each.detach().numpy() for each in (y, x.grad, w.grad)]
