"""Weights of a file that are not finite: none of them can be trained, and NaN spreads."""

from collections.abc import Mapping

import numpy as np

from odtc.core.disk.mapped_arrays import leave_pages
from odtc.core.errors import ModelError
from odtc.core.specs import Block
from odtc.frontend.weights.notes import listed

# So many elements are looked at in one go: their answers take as many bytes.
_AT_ONCE = 1 << 20


def not_finite(weights: Mapping[str, np.ndarray]) -> frozenset[str]:
    """Names of the weights of which an element is infinite or NaN."""
    return frozenset(name for name, value in weights.items() if not _is_finite(value))


def _is_finite(value: np.ndarray) -> bool:
    flat = value.reshape(-1)
    parts = range(0, flat.size, _AT_ONCE)
    is_finite = all(np.isfinite(flat[start : start + _AT_ONCE]).all() for start in parts)
    leave_pages([value])
    return is_finite


def require_finite(
    weights: Mapping[str, np.ndarray],
    trained: Mapping[str, Block | None],
    broken: frozenset[str],
) -> None:
    """Checks that what is trained is finite: an update of it would never be.

    Args:
        weights: by name.
        trained: the part of each that is trained; None for all of it.
        broken: names of those that have something that is not finite.

    Raises:
        ModelError: something that is trained is not.
    """
    for name in broken & trained.keys():
        value, block = weights[name], trained[name]
        if block is not None:
            value = value.take(range(block.start, block.start + block.size), block.axis)
        wrong = value[~np.isfinite(value)]
        if wrong.size:
            raise ModelError(
                f"{wrong.size:,} of {value.size:,} elements of {name!r} are {wrong.flat[0]} in the "
                "model: no step can train it",
                where=f"initializer {name}",
                hint=f"freeze it if this is intended, as in a mask: --freeze {name}; otherwise "
                "export the model with finite weights",
            )


def note_of_nan(weights: Mapping[str, np.ndarray], broken: frozenset[str]) -> str:
    """A note on weights with NaN that are not trained; empty if there are none.

    Infinite ones may be meant, as in masks.

    Args:
        weights: by name.
        broken: names of those that have something that is not finite.
    """
    names = [name for name in weights if name in broken and np.isnan(weights[name]).any()]
    if not names:
        return ""
    return f"{listed(names)}: NaN in the model, and so in all that is computed from it"
