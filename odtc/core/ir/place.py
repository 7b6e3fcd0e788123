"""Where the samples of a batch lie in a tensor, and how arrays are cut and joined there."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Place:
    """The samples lie along an axis whose index is (outer, sample, inner).

    Attributes:
        axis: of the tensor, from 0.
        outer: how many times all samples follow each other.
        inner: neighbours along the axis that belong to one sample.
    """

    axis: int
    outer: int = 1
    inner: int = 1

    def at(self, axis: int) -> "Place":
        """The same along another axis."""
        return replace(self, axis=axis)

    def fits(self, shape: Sequence[int]) -> bool:
        """Whether a tensor of this shape has whole samples there."""
        return self.axis < len(shape) and shape[self.axis] % (self.outer * self.inner) == 0

    def count(self, shape: Sequence[int]) -> int:
        """Samples in a tensor of this shape."""
        return shape[self.axis] // (self.outer * self.inner)

    def shape_of(self, shape: Sequence[int], samples: int) -> tuple[int, ...]:
        """The shape with so many samples."""
        size = self.outer * samples * self.inner
        return (*shape[: self.axis], size, *shape[self.axis + 1 :])


def take(array: np.ndarray, place: Place, samples: slice | np.ndarray) -> np.ndarray:
    """Some samples, by their numbers; a view of the array where these are a slice along axis 0."""
    if place.outer == place.inner == 1:
        return array[(slice(None),) * place.axis + (samples,)]
    chosen = _apart(array, place)[(slice(None),) * (place.axis + 1) + (samples,)]
    return _together(chosen, array.shape, place)


def join(parts: Sequence[np.ndarray], place: Place) -> np.ndarray:
    """Arrays one after another, as one of all their samples."""
    if len(parts) == 1:
        return parts[0]
    joined = np.concatenate([_apart(part, place) for part in parts], place.axis + 1)
    return _together(joined, parts[0].shape, place)


def pad(array: np.ndarray, place: Place, missing: int) -> np.ndarray:
    """The array with so many copies of its last sample after the others.

    Any other values, as zeros, may be such that a model cannot compute with: it may divide by them.
    """
    last = take(array, place, slice(-1, None))
    return join([array, *[last] * missing], place)


def _apart(array: np.ndarray, place: Place) -> np.ndarray:
    """The array with an axis of samples, between those of outer and inner."""
    shape, axis = array.shape, place.axis
    split = (place.outer, place.count(shape), place.inner)
    return array.reshape((*shape[:axis], *split, *shape[axis + 1 :]))


def _together(array: np.ndarray, shape: Sequence[int], place: Place) -> np.ndarray:
    return array.reshape(place.shape_of(shape, array.shape[place.axis + 1]))
