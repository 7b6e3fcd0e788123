"""Calls of kernels, as a virtual machine shows them to its instrument."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm

# A kernel's last argument is its workspace, if it has one: bytes in a row.
_WORKSPACE = "uint8"


@dataclass(frozen=True)
class KernelCall:
    """One call of a kernel.

    Attributes:
        name: of the kernel.
        shapes: of its tensors without its workspace; the last one is what it writes.
        bytes: of all of them.
        seconds: that it took.
    """

    name: str
    shapes: tuple[tuple[int, ...], ...]
    bytes: int
    seconds: float

    @property
    def sizes(self) -> tuple[int, ...]:
        """Elements of its tensors."""
        return tuple(math.prod(shape) for shape in self.shapes)


def call_of(name: str, arguments: Sequence[Any], seconds: float) -> KernelCall:
    """A call, from what the virtual machine hands to a kernel."""
    tensors = [value for value in arguments if isinstance(value, tvm.runtime.Tensor)]
    if len(tensors[-1].shape) == 1 and str(tensors[-1].dtype) == _WORKSPACE:
        tensors.pop()
    shapes = tuple(tuple(int(size) for size in tensor.shape) for tensor in tensors)
    widths = [np.dtype(str(tensor.dtype)).itemsize for tensor in tensors]
    moved = sum(math.prod(s) * width for s, width in zip(shapes, widths, strict=True))
    return KernelCall(name, shapes, moved, seconds)
