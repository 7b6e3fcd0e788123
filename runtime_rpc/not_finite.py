"""Why a step's loss is not finite: which tensor was the first that is not, and how much of it."""

import math
from collections.abc import Iterable

import numpy as np

from odtc.core.errors import NumericError
from odtc.core.ir.marked_loss import loss_inside

_HINT = (
    "load the last checkpoint, and train with a lower learning rate; an index that the model "
    "computes itself and that is out of bounds also reads and writes NaN"
)
_FIRST = (
    "no learning rate had a part in it: look at the weights as they were given, and at the batch, "
    "for instance for a row of attention that a mask of -inf hides as a whole, or an index out of "
    "bounds that the model computes, which reads NaN"
)
_FED = (
    "look for such values in the data, and load the last checkpoint; a step that is compiled with "
    "--on-nonfinite skip leaves such batches out"
)


def is_marked(loss: float) -> bool:
    """Whether a loss says that its step wrote what is not finite."""
    return loss_inside(loss) is not None


def not_finite(
    loss: float,
    step: int,
    rate: float,
    fed: Iterable[tuple[str, np.ndarray]],
    kept: Iterable[tuple[str, np.ndarray]],
) -> NumericError:
    """The error of a step.

    Args:
        loss: as the step returned it.
        step: its number, from 1.
        rate: its learning rate.
        fed: inputs and labels of the step, with their names.
        kept: weights and state after it; read only where what was fed is finite.
    """
    inside = loss_inside(loss)
    shown = loss if inside is None else inside
    at = f"at step {step} (loss {shown:.3g}, learning rate {rate:g})"
    if said := _first(fed):
        return NumericError(f"{said} {at}", hint=_FED)
    hint = _FIRST if step == 1 and not math.isfinite(shown) else _HINT
    if said := _first(kept):
        return NumericError(f"{said} {at}", hint=hint)
    return NumericError(f"the loss is {loss} at step {step} (learning rate {rate:g})", hint=hint)


def _first(tensors: Iterable[tuple[str, np.ndarray]]) -> str:
    """A sentence on the first tensor that is not finite; empty where all are."""
    for name, value in tensors:
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            wrong = value[~np.isfinite(value)]
            such = "nan" if math.isnan(wrong.flat[0]) else str(wrong.flat[0])
            return f"{wrong.size} of {value.size} elements of {name!r} are {such}"
    return ""
