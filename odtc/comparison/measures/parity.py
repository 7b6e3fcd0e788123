"""Checks that two engines train the same, by their losses over the first steps."""

from collections.abc import Sequence

import numpy as np

PARITY_STEPS = 3
PARITY_TOLERANCE = 2e-3
# At a low learning rate an engine that trains nothing has nearly the right losses, so their change
# is compared too: relative to odtc's change, beyond the rounding of a loss.
PROGRESS_TOLERANCE = 0.1
ROUNDING = 1e-5


def disagreement(losses: Sequence[float], expected: Sequence[float]) -> str:
    """Describes how the losses differ from those expected; '' where they agree.

    Losses that are not finite agree with none.
    """
    if np.isfinite([*losses, *expected]).all() and _are_close(losses, expected):
        return ""
    ours, theirs = (", ".join(f"{loss:.5f}" for loss in each) for each in (expected, losses))
    return f"its losses are {theirs}; those of odtc are {ours}"


def _are_close(losses: Sequence[float], expected: Sequence[float]) -> bool:
    with np.errstate(over="ignore"):
        changes = np.subtract(losses, losses[0]), np.subtract(expected, expected[0])
    return np.allclose(
        losses, expected, rtol=PARITY_TOLERANCE, atol=PARITY_TOLERANCE
    ) and np.allclose(*changes, rtol=PROGRESS_TOLERANCE, atol=ROUNDING * abs(expected[0]))
