"""The tables of resizing along one axis, as ONNX defines it: which elements, how much of each.

Interpolation is separable: an image is resized along one axis after the other.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from odtc.frontend.axis_map import AxisMap


@dataclass(frozen=True)
class Axis:
    """One axis under resizing.

    Attributes:
        size: before.
        result: size after.
        scale: how much larger it gets; not always `result / size`, which is a whole number.
    """

    size: int
    result: int
    scale: float

    def positions(self) -> np.ndarray:
        """Indices of the results."""
        return np.arange(self.result, dtype=np.float64)


@dataclass(frozen=True)
class Method:
    """How to resize, in ONNX's words.

    Attributes:
        mode: nearest, linear or cubic.
        coordinates: how a result's index becomes a position among the elements.
        nearest: how a position is rounded.
        cubic: the coefficient `a` of cubic interpolation.
        exclude_outside: whether elements outside get no weight, rather than the nearest inside.
        antialias: whether the filter is widened where the axis gets smaller.
    """

    mode: str
    coordinates: str
    nearest: str = "round_prefer_floor"
    cubic: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False


def _half_pixel(axis: Axis) -> np.ndarray:
    return (axis.positions() + 0.5) / axis.scale - 0.5


def _symmetric(axis: Axis) -> np.ndarray:
    """Half pixels around the middle of the axis, also where the result's size was rounded."""
    adjustment = axis.result / (axis.scale * axis.size)
    return axis.size / 2 * (1 - adjustment) + _half_pixel(axis)


def _align_corners(axis: Axis) -> np.ndarray:
    """The ends stay where they are; by the scale, which the result's size may be rounded from."""
    return axis.positions() * (axis.size - 1) / ((axis.size * axis.scale - 1) or 1)


COORDINATES: dict[str, Callable[[Axis], np.ndarray]] = {
    "align_corners": _align_corners,
    "asymmetric": lambda axis: axis.positions() / axis.scale,
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _symmetric,
    "pytorch_half_pixel": lambda axis: _half_pixel(axis) if axis.result > 1 else np.zeros(1),
    "tf_half_pixel_for_nn": lambda axis: _half_pixel(axis) + 0.5,
}

NEAREST: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "ceil": np.ceil,
    "floor": np.floor,
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
}


def _triangle(distance: np.ndarray, _: float) -> np.ndarray:
    return np.maximum(1 - np.abs(distance), 0)


def _cubic(distance: np.ndarray, a: float) -> np.ndarray:
    """Cubic convolution (Keys, 1981)."""
    d = np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


# Mode to its filter and how far that reaches.
FILTERS: dict[str, tuple[Callable[[np.ndarray, float], np.ndarray], int]] = {
    "linear": (_triangle, 1),
    "cubic": (_cubic, 2),
}


def axis_map(axis: Axis, method: Method) -> AxisMap:
    """The tables for an axis."""
    positions = COORDINATES[method.coordinates](axis)
    if method.mode == "nearest":
        chosen = np.clip(NEAREST[method.nearest](positions), 0, axis.size - 1)
        return AxisMap.gather(chosen.astype(np.int32), axis.size)
    weigh, reach = FILTERS[method.mode]
    # Where the axis gets smaller, an anti-aliasing filter reaches as much further.
    width = min(axis.scale, 1.0) if method.antialias else 1.0
    first = np.floor(positions - reach / width).astype(int)
    taps = first[:, None] + np.arange(2 * math.ceil(reach / width) + 2)
    weights = weigh((taps - positions[:, None]) * width, method.cubic)
    inside = (taps >= 0) & (taps < axis.size)
    if method.exclude_outside:
        weights = np.where(inside, weights, 0)
    weights = weights / weights.sum(1, keepdims=True)
    return _merged(np.clip(taps, 0, axis.size - 1), weights, axis.size)


def _merged(taps: np.ndarray, weights: np.ndarray, size: int) -> AxisMap:
    """The map with each element once per result, in as few columns as can be."""
    rows = []
    for indices, factors in zip(taps, weights, strict=True):
        sums = np.bincount(indices, factors, size)
        used = np.flatnonzero(np.abs(sums) > 1e-12)
        rows.append((used, sums[used]))
    columns = max(len(used) for used, _ in rows)
    shape = (len(rows), columns)
    table, factors = np.zeros(shape, np.int32), np.zeros(shape, np.float32)
    for row, (used, sums) in enumerate(rows):
        table[row, : len(used)], factors[row, : len(used)] = used, sums
    return AxisMap(size, table, factors)
