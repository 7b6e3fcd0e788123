"""The part of what is fed that a loss inside of the model compares with."""

from dataclasses import dataclass

import numpy as np

from odtc.core.specs import Classes


@dataclass(frozen=True)
class Counted:
    """Class numbers that a loss inside of the model reads.

    Attributes:
        name: of the input or label that they are fed with.
        classes: what they may be.
        cut: axes of which only a part is read, each with what is left out before it and after it:
            `labels[:, 1:]` has `((1, 1, 0),)`. So it holds at any length.
    """

    name: str
    classes: Classes
    cut: tuple[tuple[int, int, int], ...] = ()

    def of(self, array: np.ndarray) -> np.ndarray:
        """What the loss reads of what is fed, as a view."""
        ranges = [slice(None)] * array.ndim
        for axis, before, after in self.cut:
            ranges[axis] = slice(before, array.shape[axis] - after)
        return array[tuple(ranges)]
