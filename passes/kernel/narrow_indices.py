"""Computes indices of GPU kernels in 32 bits.

TVM computes with shapes in 64 bits, which many a phone's GPU cannot, and others do slowly. Kernels
that hold integers of 64 bits in memory, such as the rows that an embedding takes, stay as they are,
and those of tensors with more elements than 32 bits can count. Where a tensor lies in the arena is
another number, see `TakeOffsets`.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import tvm
import tvm_ffi
from tvm import tirx
from tvm.tirx import transform as T  # noqa: N812

from odtc.passes.contract import Pass

_COUNTED = 1 << 31


@dataclass(frozen=True)
class NarrowIndices(Pass):
    """Computes indices of kernels in 32 bits; they hold no blocks any more."""

    name: ClassVar[str] = "narrow-indices"

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites all kernels that it may."""
        narrow = T.ForceNarrowIndexToInt32()
        narrowed = module.clone()
        for variable, kernel in module.functions_items():
            if isinstance(kernel, tirx.PrimFunc) and _is_narrow(kernel):
                alone = narrow(tvm.IRModule({"kernel": kernel}))
                narrowed.update_func(variable, alone["kernel"])
        return narrowed


def _is_narrow(kernel: tirx.PrimFunc) -> bool:
    buffers: list[Any] = [each for each in kernel.params if isinstance(each.ty, tirx.BufferType)]
    tvm_ffi.structural_walk(kernel.body, (tirx.AllocBuffer, lambda a: buffers.append(a.buffer)))
    return all(
        str(each.dtype) not in ("int64", "uint64") and math.prod(map(int, each.shape)) < _COUNTED
        for each in buffers
    )
