"""Computes indices of GPU kernels in 32 bits.

TVM computes with shapes in 64 bits, which many a phone's GPU cannot, and others do slowly. No
tensor of a GPU's step has as many elements as 32 bits can count. Kernels that hold integers of 64
bits in memory, such as the rows that an embedding takes, stay as they are.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import tvm
import tvm_ffi
from tvm import tirx
from tvm.tirx import transform as T  # noqa: N812

from odtc.passes.contract import Pass


@dataclass(frozen=True)
class NarrowIndices(Pass):
    """Rewrites the kernels, which hold no blocks any more."""

    name: ClassVar[str] = "narrow-indices"

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites all kernels that it may."""
        narrow = T.ForceNarrowIndexToInt32()
        narrowed = module.clone()
        for variable, kernel in module.functions_items():
            if isinstance(kernel, tirx.PrimFunc) and not _holds_wide_integers(kernel):
                alone = narrow(tvm.IRModule({"kernel": kernel}))
                narrowed.update_func(variable, alone["kernel"])
        return narrowed


def _holds_wide_integers(kernel: tirx.PrimFunc) -> bool:
    buffers: list[Any] = [each for each in kernel.params if isinstance(each.ty, tirx.BufferType)]
    tvm_ffi.structural_walk(kernel.body, (tirx.AllocBuffer, lambda a: buffers.append(a.buffer)))
    return any(str(each.dtype) in ("int64", "uint64") for each in buffers)
