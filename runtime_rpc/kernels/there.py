"""Programs of kernels on a device that odtc-device serves."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from odtc.backends.program.kernels import OUTPUT
from odtc.backends.program.running import OpenKernels
from odtc.core.disk.left_behind import temporary_folder
from odtc.core.disk.tensor_file import write_tensors
from odtc.core.errors import DeviceError
from odtc.core.specs import TensorSpec
from odtc.runtime_rpc.engines.served_program import ServedProgram, uploaded
from odtc.runtime_rpc.kernels.errors import kernel_errors
from odtc.runtime_rpc.kernels.here import ALIGNMENT
from odtc.runtime_rpc.sessions.remote import RemoteSession
from odtc.runtime_rpc.tracker.told import understood


class _KernelsThere:
    """A `KernelProgram` of a device."""

    def __init__(self, session: RemoteSession, program: ServedProgram, result: TensorSpec) -> None:
        self._session, self._program, self._result = session, program, result

    def result(self) -> np.ndarray:
        """Runs it, and returns what it computes."""
        with kernel_errors(self._session.name):
            answer = bytes(self._program.call("evaluate", OUTPUT, 0))
        with understood("the device", self._session.name):
            return np.frombuffer(answer, self._result.dtype).reshape(self._result.shape)

    def seconds(self, runs: int) -> list[float]:
        """Runs it so many times; seconds of each."""
        with kernel_errors(self._session.name):
            answer = bytes(self._program.call("time_evaluation", OUTPUT, runs))
        with understood("the device", self._session.name):
            return (np.frombuffer(answer, "<i8", runs) / 1e9).tolist()


@contextmanager
def kernels_there(
    session: RemoteSession, arguments: Mapping[str, np.ndarray]
) -> Iterator[OpenKernels]:
    """A block in which programs of a device are opened, all with the same arguments.

    Args:
        session: with the device.
        arguments: by name; they are sent once.
    """
    with temporary_folder() as folder:
        write_tensors(path := folder / "arguments", arguments, alignment=ALIGNMENT)
        weights = uploaded(session, path, path.name)

    @contextmanager
    def opened(program: Path, library: Path, result: TensorSpec) -> Iterator[_KernelsThere]:
        code = [uploaded(session, path, path.name) for path in (program, library)]
        try:
            with kernel_errors(session.name):
                served = ServedProgram(session, [code[0], weights, code[1]])
        finally:
            _remove(session, code)
        try:
            yield _KernelsThere(session, served, result)
        finally:
            with suppress(DeviceError):  # what has ended the block is told, and not what follows
                served.call("close")

    yield opened
    _remove(session, (weights,))


def _remove(session: RemoteSession, names: Sequence[str]) -> None:
    """Removes files of a session: one that measures for hours would keep all that it was sent."""
    for name in names:
        with session.guard():
            session.remote.remove(name)
