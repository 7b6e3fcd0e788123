"""Some steps on one batch, at a learning rate that fits the file."""

import math
from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np

from odtc.core.artifact.manifest import Manifest
from odtc.core.errors import NumericError
from odtc.core.specs import Role
from odtc.runtime_rpc.trainer import Trainer
from tests.published.values import Values

_COUNT = 3
# The part of the loss that the first rate takes away, were the loss as steep all the way.
_SLOPE = 0.02
# A step's largest part of the weights' length: where the loss is near its floor, or the gradient
# small, the rate above would throw all weights away.
_MOST = 0.05
_SHORTER, _TRIES = 0.25, 10


def losses_of_steps(
    manifest: Manifest, trainer: Trainer, values: Values
) -> tuple[tuple[float, ...], float]:
    """The losses of steps, and their rate: the first one tried at which each is below the last.

    A rate that is too large for a file is no fault of the gradient, and losses that fall at none
    are: what is returned then are the losses at the smallest rate.

    Args:
        manifest: of the step.
        trainer: of the step; it is left with the weights after these steps.
        values: one batch.
    """
    start = trainer.parameters()
    losses, used = (), math.nan
    for rate in _rates(manifest, trainer, values, start):
        trainer.set_parameters(start)
        losses, used = _losses(trainer, values, rate), rate
        if falls(losses):
            break
    return losses, used


def falls(losses: tuple[float, ...]) -> bool:
    """Whether each loss is a number below the one before; there is no number without a step."""
    return len(losses) == _COUNT and all(after < before for before, after in pairwise(losses))


def _losses(trainer: Trainer, values: Values, rate: float) -> tuple[float, ...]:
    """Up to the first one that is not finite."""
    found: list[float] = []
    try:
        for _ in range(_COUNT):
            found.append(trainer.step(values.inputs, values.label, lr=rate))
    except NumericError:
        found.append(math.nan)
    return tuple(found)


def _rates(
    manifest: Manifest, trainer: Trainer, values: Values, start: Mapping[str, np.ndarray]
) -> Iterator[float]:
    trained = [item.spec.name for item in manifest.of_role(Role.PARAMETER)]
    loss = trainer.step(values.inputs, values.label, lr=1.0)
    after = trainer.parameters()
    length = _length(start[name] for name in trained)
    steep = _length(start[name].astype(np.float64) - after[name] for name in trained)
    first = min(_SLOPE * loss / steep**2, _MOST * length / steep) if steep > 0 else 1.0
    for tried in range(_TRIES):
        yield first * _SHORTER**tried


def _length(arrays: Iterator[np.ndarray]) -> float:
    return math.sqrt(sum(float((array.astype(np.float64) ** 2).sum()) for array in arrays))
