"""Calls of kernels."""

import math
from dataclasses import dataclass


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
