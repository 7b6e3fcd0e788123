"""Programs of kernels in this process."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from odtc.backends.program.kernels import OUTPUT
from odtc.backends.program.running import OpenKernels
from odtc.core.disk.left_behind import temporary_folder
from odtc.core.disk.tensor_file import write_tensors
from odtc.core.specs import TensorSpec
from odtc.runtime_rpc.kernels.errors import kernel_errors
from odtc.runtime_rpc.native.binding import NativeTrainer
from odtc.runtime_rpc.native.interface import loaded_gpu_runtime
from odtc.runtime_rpc.native.on_gpu import time_evaluation

ALIGNMENT = 64


class _KernelsHere:
    """A `KernelProgram` of this process."""

    def __init__(self, native: NativeTrainer, where: str) -> None:
        self._native, self._where = native, where

    def result(self) -> np.ndarray:
        """Runs it, and returns what it computes."""
        with kernel_errors(self._where):
            return self._native.evaluate_part(OUTPUT)

    def seconds(self, runs: int) -> list[float]:
        """Runs it so many times; seconds of each."""
        with kernel_errors(self._where):
            return time_evaluation(self._native, OUTPUT, runs)


@contextmanager
def kernels_here(arguments: Mapping[str, np.ndarray], where: str) -> Iterator[OpenKernels]:
    """A block in which programs of this process are opened, all with the same arguments.

    Args:
        arguments: by name.
        where: name of the session.
    """
    with temporary_folder() as folder:
        write_tensors(weights := folder / "arguments", arguments, alignment=ALIGNMENT)

        @contextmanager
        def opened(program: Path, library: Path, _: TensorSpec) -> Iterator[_KernelsHere]:
            with kernel_errors(where):
                native = NativeTrainer((program, weights, library), 1, None, loaded_gpu_runtime())
            with native:
                yield _KernelsHere(native, where)

        yield opened
