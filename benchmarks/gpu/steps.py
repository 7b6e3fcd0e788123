"""A prepared step on this machine's GPU, by the native runtime."""

import ctypes
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from odtc.runtime_rpc.native.binding import NativeTrainer
from odtc.runtime_rpc.native.build import GPUS
from odtc.runtime_rpc.native.interface import bind_gpus
from odtc.runtime_rpc.native.on_gpu import OnGpu

# The kernel of a call, and when it began and ended, in seconds of the host's clock.
TimedCall = tuple[str, float, float]


class OdtcStep:
    """A step, each call of which sends the batch of the next one while the device computes.

    Args:
        folder: of the step; the runtime's library lies beside it, or beside its folder.
        lr: the learning rate.
    """

    def __init__(self, folder: Path, lr: float) -> None:
        self.about = json.loads((folder / "step.json").read_text(encoding="utf-8"))
        around = [folder.parent / GPUS.name, folder.parent.parent / GPUS.name]
        runtime = next(path for path in around if path.is_file())
        library = bind_gpus(ctypes.CDLL(str(runtime.resolve())))
        self._native = NativeTrainer(folder, 1, None, library)
        self._on_gpu = OnGpu(self._native, self._send)
        self._lr = lr
        self._fed: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    @property
    def device(self) -> str:
        """Its name and driver."""
        return self._on_gpu.name

    def write_parameters(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Gives the device other values of all parameters that are trained, by name."""
        for number, ((role, name), to) in enumerate(self._native.tensors.items()):
            if role == "parameter":
                to[...] = arrays[name]
                self._on_gpu.send(number)

    def _send(self) -> None:
        """As the trainer does: floats without a copy."""
        direct = {}
        for number, (to, array) in self._fed.items():
            if array.dtype == to.dtype and array.dtype.kind == "f":
                direct[number] = array
            else:
                to[...] = array
        assert self._on_gpu.send_next_from(direct)

    def __call__(self, x: Mapping[str, np.ndarray], y: np.ndarray) -> float:
        """One step of what the call before sent, or of this batch in the first one; the loss."""
        if not self._fed:
            fed = {("input", name): array for name, array in x.items()}
            for number, (key, to) in enumerate(self._native.tensors.items()):
                if key[0] in ("input", "label"):
                    array = np.ascontiguousarray(fed.get(key, y)).reshape(to.shape)
                    self._fed[number] = to, array
                    to[...] = array
        return self._native.step(self._lr)

    def timed(self) -> tuple[list[TimedCall], float, float]:
        """One more step; the calls of its kernels, and when it began and ended itself."""
        self._native.start_clock()
        begin = time.monotonic()
        self._native.step(self._lr)
        end = time.monotonic()
        return self._native.stop_clock(), begin, end

    def device_seconds(self) -> float:
        """Of one more step, from its first kernel's begin to its last one's end."""
        calls, *_ = self.timed()
        return calls[-1][2] - calls[0][1]


def kind_of(about: Mapping[str, Any]) -> str:
    """`opencl` or `vulkan`: the second word of the target's name."""
    return str(about["target"]).partition("{")[0].partition("-")[2]
