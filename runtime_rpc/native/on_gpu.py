"""A trainer of the native runtime whose tensors are on a GPU: `odtc_gpu.h`."""

import ctypes as c
from collections.abc import Callable, Mapping

import numpy as np

from odtc.core.found_gpu import FoundGpu
from odtc.runtime_rpc.native.binding import NativeTrainer
from odtc.runtime_rpc.native.interface import Found, NativeError, Waiting, loaded_gpu_runtime


def find_gpu(kind: str, number: int = 0) -> FoundGpu:
    """A GPU of this machine.

    Args:
        kind: of the interface: `opencl` or `vulkan`.
        number: of the device, GPUs before others.

    Raises:
        NativeError: there is no such device.
        BuildError: the runtime cannot be built.
        OSError: it cannot be loaded.
    """
    found = Found()
    if code := loaded_gpu_runtime().odtc_find_gpu(kind.encode(), number, c.byref(found)):
        raise NativeError(code, found.message.decode(errors="replace"))
    return FoundGpu(*(each.decode(errors="replace") for each in (found.name, found.driver)))


def time_evaluation(native: NativeTrainer, output: str, runs: int) -> list[float]:
    """Seconds of each of so many runs of an evaluation, by the timers of the device.

    Raises:
        NativeError: the device failed, or has no timers.
    """
    times = (c.c_int64 * runs)()
    timed = native.library.odtc_time_evaluation
    native.check(timed(native.handle, output.encode(), runs, times))
    return [each / 1e9 for each in times]


class OnGpu:
    """What is done with such a trainer beside what is done with any.

    Args:
        native: that was opened by the library with GPUs.
        waiting: called by each step once, when all of it is queued; it may write inputs and labels,
            and send them ahead.
    """

    def __init__(self, native: NativeTrainer, waiting: Callable[[], None]) -> None:
        self._library, self._native = native.library, native
        # The library has its address.
        self._waiting = Waiting(lambda _: waiting())
        self._library.odtc_while_waiting(native.handle, self._waiting, None)

    @property
    def name(self) -> str:
        """Of the device and its driver."""
        return self._library.odtc_gpu_name(self._native.handle).decode(errors="replace")

    def fetch(self, number: int) -> None:
        """Lets the array of a tensor hold what the device has, until anything else is called.

        Raises:
            NativeError: the device failed.
        """
        self._native.check(self._library.odtc_fetch(self._native.handle, c.c_size_t(number)))

    def send(self, number: int) -> None:
        """Gives the device what the array of a tensor holds.

        Raises:
            NativeError: the device failed.
        """
        self._native.check(self._library.odtc_send(self._native.handle, c.c_size_t(number)))

    def send_next(self) -> None:
        """Gives the device what the next step is fed; where it cannot, the step does so itself."""
        self._library.odtc_send_next(self._native.handle)

    def send_next_from(self, arrays: Mapping[int, np.ndarray]) -> bool:
        """The same of arrays that are not copied to tensors' memory before; whether that was done.

        Where it was not, the memory has to be written before the step; a step of micro-batches
        takes nothing from elsewhere.

        Args:
            arrays: contiguous, of the whole shape and the dtype of the tensor of each number.
        """
        addresses = (c.c_void_p * len(self._native.tensors))()
        for number, array in arrays.items():
            addresses[number] = array.ctypes.data
        return bool(self._library.odtc_send_next_from(self._native.handle, addresses))

    def kernels(self) -> str:
        """What kernels launch, and take of the device: JSON, see `odtc_describe_kernels`.

        Raises:
            NativeError: the device failed.
        """
        said = c.c_char_p()
        self._native.check(self._library.odtc_describe_kernels(self._native.handle, c.byref(said)))
        return (said.value or b"").decode()

    def drop_next(self) -> None:
        """Lets the next step read what is in memory by then."""
        self._library.odtc_drop_next(self._native.handle)
