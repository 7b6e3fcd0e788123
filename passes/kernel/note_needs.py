"""Notes what passes over calls ask of a kernel that may become an outline in another compile."""

from dataclasses import dataclass
from typing import ClassVar

import tvm
from tvm import tirx

from odtc.core.ir.outline_marks import MADE_FROM, OUTLINE, REPLACEABLE, WORKSPACES
from odtc.passes.contract import Pass
from odtc.passes.memory.workspaces import Heights
from odtc.passes.schedule.write_over import replaceable


@dataclass(frozen=True)
class NoteNeeds(Pass):
    """Marks kernels with their workspaces, and with what their results may lie over.

    Kernels hold no blocks any more.

    Attributes:
        slots: the most threads that run a kernel.
    """

    name: ClassVar[str] = "note-needs"
    slots: int

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Marks those of which it is known what they are made from."""
        noted = module.clone()
        for variable, kernel in module.functions_items():
            marks = (kernel.attrs or {}) if isinstance(kernel, tirx.PrimFunc) else {}
            if MADE_FROM in marks and OUTLINE not in marks:
                sizes = {str(slots): Heights(slots).of(kernel.body) for slots in {1, self.slots}}
                marked = kernel.with_attr(REPLACEABLE, replaceable(kernel))
                noted.update_func(variable, marked.with_attr(WORKSPACES, sizes))
        return noted
