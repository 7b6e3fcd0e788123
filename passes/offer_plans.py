"""A step by several plans, of which the caller runs the one that memory allows.

    step ─one function for each plan→ the same kernels, in one library

All of them give the same bits, and read and write the same parameters and state: a caller may take
each step by another one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import tvm
from tvm import relax

from odtc.passes.calls import Calls, workspaces_in
from odtc.passes.checkpoint.call_time import Cost
from odtc.passes.checkpoint.problem import Plan, Storage
from odtc.passes.contract import Pass
from odtc.passes.insert_checkpoints import recomputation_of, replayed


@dataclass(frozen=True)
class OfferPlans(Pass):
    """Makes a function for each plan of a step.

    Functions hold no dataflow blocks, and kernels no blocks.

    Attributes:
        function: name of the training step; that of the first plan afterwards.
        slots: the most threads that run a kernel.
        cost: of a call; only its proportions matter.
        plans: of the step, as `recomputation_of` describes it.
        storage: that results may wait in.
    """

    name: ClassVar[str] = "offer-plans"
    function: str
    slots: int
    cost: Cost = field(repr=False)
    plans: Sequence[Plan] = field(repr=False)
    storage: Storage | None = None

    @property
    def functions(self) -> tuple[str, ...]:
        """The functions' names, in the order of the plans."""
        more = (f"{self.function}_{number}" for number in range(1, len(self.plans)))
        return (self.function, *more)

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Adds the functions."""
        function = module[self.function]
        calls = Calls(function, workspaces_in(module, self.slots))
        problem = recomputation_of(calls, module, self.cost, self.storage)
        every, offered = replayed(module, function, calls, problem, self.plans)
        for name, found in zip(self.functions, every, strict=True):
            if name == self.function:
                offered.update_func(module.get_global_var(name), found)
            else:
                own = relax.utils.copy_with_new_vars(found)
                offered[name] = own.with_attr("global_symbol", name)
        return relax.transform.Normalize()(offered)
