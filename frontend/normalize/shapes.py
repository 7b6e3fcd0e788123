"""Shapes that ONNX's inference leaves open, of what is known."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def unpooled_shape(shape: Sequence[int], attrs: Mapping[str, Any]) -> np.ndarray:
    """The shape that the indices of a MaxUnpool count in: what a pooling with such windows had.

    Args:
        shape: of the elements.
        attrs: of the MaxUnpool.
    """
    kernel = np.array(attrs["kernel_shape"])
    strides = np.array(attrs.get("strides") or np.ones_like(kernel))
    before, behind = np.reshape(attrs.get("pads") or np.zeros(2 * len(kernel), int), (2, -1))
    spatial = (np.array(shape[2:]) - 1) * strides - before - behind + kernel
    return np.array([*shape[:2], *spatial])
