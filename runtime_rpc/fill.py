"""Gives tensors their elements in flat parts that follow each other."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import tvm


def send_parts(tensor: "tvm.runtime.Tensor", parts: Iterable[np.ndarray]) -> None:
    """Sends a tensor its elements as a whole."""
    whole = np.empty(tensor.shape, str(tensor.dtype))
    write_parts(whole, parts)
    tensor.copyfrom(whole)


def write_parts(array: np.ndarray, parts: Iterable[np.ndarray]) -> None:
    """Writes parts that follow each other, so that only one of them is in memory twice."""
    elements, first = array.reshape(-1), 0
    for part in parts:
        elements[first : first + part.size] = part
        first += part.size
