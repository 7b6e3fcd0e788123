"""On CPUs the marks of a loop's iterations become one after the loop.

    for each element: store; if not finite: mark the loss
      ─gather-marks→
    found = 0; for each element: store; found |= not finite;  if found: mark the loss

LLVM makes no vectors of a loop that may store to one place from any iteration, but of one that
joins bits in a register. A GPU runs all iterations at once, and keeps the marks where they are.
"""

from dataclasses import dataclass
from typing import ClassVar

import tvm
import tvm_ffi
from tvm import tirx

from odtc.core.ir.kernel_marks import INDEPENDENT
from odtc.core.ir.update_marks import MARKS_LOSS
from odtc.passes.contract import Pass


@dataclass(frozen=True)
class GatherMarks(Pass):
    """Marks the loss after loops, not within; kernels hold no blocks any more."""

    name: ClassVar[str] = "gather-marks"

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites the loops whose iterations are independent."""
        module = module.clone()
        for variable, kernel in list(module.functions_items()):
            if isinstance(kernel, tirx.PrimFunc) and MARKS_LOSS in (kernel.attrs or {}):
                body = tvm_ffi.structural_map(kernel.body, (tirx.For, _gathered))
                changed = tirx.PrimFunc(kernel.params, body, kernel.ret_type, attrs=kernel.attrs)
                module.update_func(variable, changed)
        return module


def _gathered(loop: tirx.For) -> tirx.Stmt:
    """A loop of one thread whose iterations note what they find, and the mark after it."""
    statements = list(loop.body) if isinstance(loop.body, tirx.SeqStmt) else [loop.body]
    marks = [each for each in statements if isinstance(each, tirx.IfThenElse)]
    if loop.kind != tirx.ForKind.SERIAL or INDEPENDENT not in loop.annotations or len(marks) != 1:
        return loop
    (mark,) = marks
    found = tirx.decl_buffer((1,), "int32", "found")
    before = tirx.BufferLoad(found, [0])
    note = tirx.BufferStore(found, before | tirx.Cast("int32", mark.condition), [0])
    body = tirx.SeqStmt([note if each is mark else each for each in statements])
    noting = tirx.For(
        loop.loop_var, loop.min, loop.extent, loop.kind, body, annotations=loop.annotations
    )
    return tirx.SeqStmt(
        [
            tirx.AllocBuffer(found),
            tirx.BufferStore(found, tirx.const(0, "int32"), [0]),
            noting,
            tirx.IfThenElse(before != 0, mark.then_case, None),
        ]
    )
