"""Runs a kernel on tensors with memory around them that it must neither write nor depend on."""

import math
from collections.abc import Sequence

import numpy as np
import tvm

HOST = tvm.target.Target({"kind": "llvm"})
# Bytes on each side of a tensor: in whole cache lines, as TVM wants tensors aligned.
AROUND = 1 << 12
_LINE = 64


def run_guarded(
    kernel: tvm.tirx.PrimFunc, inputs: Sequence[np.ndarray], results: int = 1
) -> list[np.ndarray]:
    """The kernel's results; what it does not write of them is NaN.

    Around the inputs are NaNs, so that what is read from there and used shows in the results.

    Args:
        kernel: of tensors of floats, the results last.
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
    tvm.compile(module, HOST)["main"](
        *(tvm.runtime.from_dlpack(view) for _, view in (*given, *found))
    )
    for whole, view in found:
        around = AROUND // view.itemsize
        assert np.isnan(whole[:around]).all(), "the kernel writes in front of a result"
        assert np.isnan(whole[around + view.size :]).all(), "the kernel writes behind a result"
    return [view for _, view in found]


def _surrounded(shape: Sequence[int], dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """A flat array of NaNs, and the tensor in its middle."""
    size, around = math.prod(shape), AROUND // dtype.itemsize
    room = np.full(size + 2 * around + _LINE, np.nan, dtype)
    skipped = -room.ctypes.data % _LINE // dtype.itemsize
    whole = room[skipped : skipped + size + 2 * around]
    return whole, whole[around : around + size].reshape(shape)
