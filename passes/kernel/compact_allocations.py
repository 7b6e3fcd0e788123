"""Shrinks allocations of kernels to what is used of them, where the kernels do not know that.

TVM's pass works out the region of each buffer that is used, which takes longer than any other pass
over a large kernel. Who writes a kernel's loops by hand mostly allocates what they use, and says so
with the mark EXACT.
"""

from dataclasses import dataclass
from typing import ClassVar

import tvm
from tvm import tirx
from tvm.s_tir import transform as S  # noqa: N812

from odtc.core.ir.kernel_marks import EXACT
from odtc.passes.contract import Pass


@dataclass(frozen=True)
class CompactAllocations(Pass):
    """Runs TVM's CompactBufferAllocation on kernels without the mark."""

    name: ClassVar[str] = "compact-allocations"

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites the kernels whose allocations may be too large."""
        inexact = {
            variable: kernel
            for variable, kernel in module.functions_items()
            if isinstance(kernel, tirx.PrimFunc) and EXACT not in (kernel.attrs or {})
        }
        compact = S.CompactBufferAllocation()(tvm.IRModule(inexact))
        rewritten = module.clone()
        for variable, kernel in compact.functions_items():
            rewritten.update_func(module.get_global_var(variable.name_hint), kernel)
        return rewritten
