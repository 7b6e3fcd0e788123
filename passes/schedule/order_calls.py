"""Calls run in the order in which fewest bytes are alive.

Autodiff gives one order of many that are right: branches could wait, and a gradient of weights
could come before or after that of data.

    calls ─tasks→ Tasks ─lowest_order→ Order ─→ the same bindings in that order
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import tvm
from tvm import ir, relax

from odtc.passes.contract import Pass
from odtc.passes.ir.bindings import with_bindings
from odtc.passes.ir.calls import Calls, with_views, workspaces_in
from odtc.passes.memory.operator_order import lowest_order


@dataclass(frozen=True)
class OrderCalls(Pass):
    """Puts the kernel calls of every function in the order of the lowest peak that is found.

    Functions hold no dataflow blocks, and kernels no blocks. Views, tuples and their fields stand
    in front of what reads them.

    Attributes:
        slots: the most threads that run a kernel: each has a workspace.
    """

    name: ClassVar[str] = "order-calls"
    slots: int

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Reorders bindings; each keeps its value."""
        ordered = module.clone()
        workspaces = workspaces_in(module, self.slots)
        for variable, function in module.functions_items():
            if isinstance(function, relax.Function):
                ordered.update_func(variable, _ordered(function, workspaces))
        return relax.transform.Normalize()(ordered)


def _ordered(function: relax.Function, workspaces: Mapping[ir.GlobalVar, int]) -> relax.Function:
    calls = Calls(function, workspaces)
    order = lowest_order(calls.tasks).order
    bindings = [calls.bindings[number] for number in order]
    return with_bindings(function, list(with_views(bindings, function)))
