"""Takes the time of every kernel of a step."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax

from benchmarks.kernel_time.calls import KernelCall
from benchmarks.virtual_machine import VirtualMachineHere
from odtc.runtime_rpc.server.measure.call_clock import BOOKKEEPING

# A kernel's last argument is its workspace, if it has one: bytes in a row.
_WORKSPACE = "uint8"


@dataclass(frozen=True)
class ClockedSession(VirtualMachineHere):
    """This process, with a clock at every kernel: TVM shows the tensors that it is called with.

    Attributes:
        calls: of kernels, in order, until they are cleared.
    """

    calls: list[KernelCall] = field(default_factory=list)

    def load(self, library: Path) -> relax.VirtualMachine:
        """Loads a library; its virtual machine notes its calls here."""
        machine = super().load(library)
        begin = 0.0

        def observe(_: Any, name: str, before: bool, __: Any, *arguments: Any) -> None:
            nonlocal begin
            if before:
                begin = time.perf_counter()
                return
            seconds = time.perf_counter() - begin
            if not name.startswith(BOOKKEEPING):
                self.calls.append(call_of(name, arguments, seconds))

        machine.set_instrument(observe)
        return machine


def medians(steps: Sequence[Sequence[KernelCall]]) -> list[KernelCall]:
    """The calls of a step, each with its median over several steps."""
    return [
        KernelCall(*_same(calls), float(np.median([call.seconds for call in calls])))
        for calls in zip(*steps, strict=True)
    ]


def _same(calls: Sequence[KernelCall]) -> tuple[str, tuple[tuple[int, ...], ...], int]:
    """Returns a call's name, shapes and bytes, which must be the same in every step."""
    ((name, shapes, moved),) = {(call.name, call.shapes, call.bytes) for call in calls}
    return name, shapes, moved


def call_of(name: str, arguments: Sequence[Any], seconds: float) -> KernelCall:
    """A call, from what the virtual machine hands to a kernel."""
    tensors = [value for value in arguments if isinstance(value, tvm.runtime.Tensor)]
    if len(tensors[-1].shape) == 1 and str(tensors[-1].dtype) == _WORKSPACE:
        tensors.pop()
    shapes = tuple(tuple(int(size) for size in tensor.shape) for tensor in tensors)
    widths = [np.dtype(str(tensor.dtype)).itemsize for tensor in tensors]
    moved = sum(math.prod(s) * width for s, width in zip(shapes, widths, strict=True))
    return KernelCall(name, shapes, moved, seconds)
