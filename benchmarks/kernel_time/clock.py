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

from odtc.runtime_rpc.session import LocalSession

# What the virtual machine does between kernels: it allocates, checks shapes, makes views.
_BOOKKEEPING = "vm."
# A kernel's last argument is its workspace, if it has one: bytes in a row.
_WORKSPACE = "uint8"


@dataclass(frozen=True)
class Call:
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


@dataclass(frozen=True)
class ClockedSession(LocalSession):
    """This process, with a clock at every kernel.

    Attributes:
        calls: of kernels, in order, until they are cleared.
    """

    calls: list[Call] = field(default_factory=list)

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
            if not name.startswith(_BOOKKEEPING):
                self.calls.append(_call(name, arguments, seconds))

        machine.set_instrument(observe)
        return machine


def _call(name: str, arguments: Sequence[Any], seconds: float) -> Call:
    tensors = [value for value in arguments if isinstance(value, tvm.runtime.Tensor)]
    if len(tensors[-1].shape) == 1 and str(tensors[-1].dtype) == _WORKSPACE:
        tensors.pop()
    shapes = tuple(tuple(int(size) for size in tensor.shape) for tensor in tensors)
    widths = [np.dtype(str(tensor.dtype)).itemsize for tensor in tensors]
    moved = sum(math.prod(s) * width for s, width in zip(shapes, widths, strict=True))
    return Call(name, shapes, moved, seconds)


def medians(steps: Sequence[Sequence[Call]]) -> list[Call]:
    """The calls of a step, each with its median over several steps."""
    return [
        Call(*_same(calls), float(np.median([call.seconds for call in calls])))
        for calls in zip(*steps, strict=True)
    ]


def _same(calls: Sequence[Call]) -> tuple[str, tuple[tuple[int, ...], ...], int]:
    """What a call is in every step."""
    ((name, shapes, moved),) = {(call.name, call.shapes, call.bytes) for call in calls}
    return name, shapes, moved
