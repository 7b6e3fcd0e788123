"""What a session does with a program of `kernels`: the interface between who runs and who asks."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import numpy as np

from odtc.core.specs import TensorSpec


class KernelProgram(Protocol):
    """A program of kernels that is open on a GPU, with its arguments there.

    Its methods raise an UnsupportedError where the device does not take the program, and a
    DeviceError where it fails.
    """

    def result(self) -> np.ndarray:
        """Runs it, and returns what it computes."""
        ...

    def seconds(self, runs: int) -> list[float]:
        """Runs it so many times; seconds of each, by the timers of the device."""
        ...


# Opens a program, given its path, that of its library, and what it computes; errors as above.
OpenKernels = Callable[[Path, Path, TensorSpec], AbstractContextManager[KernelProgram]]
