"""Runs a kernel on tensors with memory around them that it must neither write nor depend on."""

import ctypes
import math
import mmap
from collections.abc import Sequence

import numpy as np
import tvm

from tests.host import loaded

# Bytes on each side of a tensor: in whole cache lines, as TVM wants tensors aligned.
AROUND = 1 << 12
_LINE = 64
# Floats of these bytes are NaN, integers are -1.
_FILL = 0xFF


def run_guarded(
    kernel: tvm.tirx.PrimFunc, inputs: Sequence[np.ndarray], results: int = 1
) -> list[np.ndarray]:
    """The kernel's results; what it does not write of them is NaN, or -1 where they are integers.

    So is what lies around all tensors: what is read from there and used shows in the results.

    Args:
        kernel: its results are its last parameters.
        inputs: one for each other parameter.
        results: their number.
    """
    given = [_surrounded(each.shape, each.dtype) for each in inputs]
    found = [
        _surrounded([int(size) for size in each.shape], np.dtype(str(each.dtype)))
        for each in kernel.params[-results:]
    ]
    for (_, view), values in zip(given, inputs, strict=True):
        view[...] = values
    module = tvm.IRModule({"main": kernel.with_attr("global_symbol", "main")})
    loaded(module)["main"](*(tvm.runtime.from_dlpack(view) for _, view in (*given, *found)))
    for whole, view in found:
        assert (whole[:AROUND] == _FILL).all(), "the kernel writes in front of a result"
        assert (whole[AROUND + view.nbytes :] == _FILL).all(), "the kernel writes behind a result"
    return [view for _, view in found]


def _surrounded(shape: Sequence[int], dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Bytes, and the tensor in their middle."""
    size = math.prod(shape) * dtype.itemsize
    room = np.full(size + 2 * AROUND + _LINE, _FILL, np.uint8)
    skipped = -room.ctypes.data % _LINE
    whole = room[skipped : skipped + size + 2 * AROUND]
    return whole, whole[AROUND : AROUND + size].view(dtype).reshape(shape)


def behind_a_hole(shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """A tensor in front of which no memory is mapped: to read there ends the process."""
    page, nbytes = mmap.PAGESIZE, math.prod(shape) * dtype.itemsize
    room = np.frombuffer(mmap.mmap(-1, page + nbytes), np.uint8)
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(room.ctypes.data), page, 0) == 0, ctypes.get_errno()
    return room[page:].view(dtype).reshape(shape)
