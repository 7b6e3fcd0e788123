"""Calls run again, so that a step takes fewer bytes: what they made is dropped in between.

    step, Plans ─one function for each plan→ the same kernels, in one library

The calls are in their order by now, and stay in it. A call that runs again is a binding of its own,
as are the views of its results; their variables end in `_again`. With a storage, results may be
copied there and back instead: the functions have one more argument then, their last one.

All of the functions give the same bits, and read and write the same parameters and state: of
several a caller may take each step by another one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import tvm
from tvm import relax

from odtc.passes.checkpoint.problem import Plan, Recomputation
from odtc.passes.checkpoint.region import StorageRegion, region_of
from odtc.passes.checkpoint.validate import validate
from odtc.passes.contract import Pass
from odtc.passes.ir.bindings import with_bindings
from odtc.passes.ir.calls import Calls, workspaces_in
from odtc.passes.ir.replay import Replay, Waiting
from odtc.passes.schedule.storage_copies import StorageCopies

# Attributes of a function: what is said of the calls that run again, and bytes of its storage.
REPEATED, STORED = "odtc.repeated", "odtc.stored"


@dataclass(frozen=True)
class InsertCheckpoints(Pass):
    """Makes a function for each plan of a step.

    Functions hold no dataflow blocks, and kernels no blocks.

    Attributes:
        function: name of the training step; that of the first plan afterwards.
        slots: the most threads that run a kernel.
        problem: the step, as `recomputation_of` describes it.
        plans: of it.
    """

    name: ClassVar[str] = "insert-checkpoints"
    function: str = field(repr=False)
    slots: int
    problem: Recomputation = field(repr=False)
    plans: Sequence[Plan] = field(repr=False)

    @property
    def functions(self) -> tuple[str, ...]:
        """The functions' names, in the order of the plans."""
        more = (f"{self.function}_{number}" for number in range(1, len(self.plans)))
        return (self.function, *more)

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Adds the functions."""
        function, problem = module[self.function], self.problem
        calls = Calls(function, workspaces_in(module, self.slots))
        regions = [region_of(problem, plan) for plan in self.plans]
        nbytes = max(region.nbytes for region in regions)
        copies = StorageCopies(module.clone(), nbytes) if nbytes else None
        every = [
            _replayed(function, calls, problem, plan, region, copies)
            for plan, region in zip(self.plans, regions, strict=True)
        ]
        offered = copies.module if copies else module.clone()
        offered.update_func(module.get_global_var(self.function), every[0])
        for name, found in zip(self.functions[1:], every[1:], strict=True):
            own = relax.utils.copy_with_new_vars(found)
            offered[name] = own.with_attr("global_symbol", name)
        return relax.transform.Normalize()(offered)


def _replayed(
    function: relax.Function,
    calls: Calls,
    problem: Recomputation,
    plan: Plan,
    region: StorageRegion,
    copies: StorageCopies | None,
) -> relax.Function:
    waiting = Waiting(copies, copies.argument(), region.offsets) if copies else None
    made = function
    if len(plan.sequence) > len(calls.bindings):
        validate(problem, plan)
        bindings = list(Replay(function, calls, problem, waiting).bindings(plan.sequence))
        made = with_bindings(function, bindings)
    if waiting:
        parameters = [*made.params, waiting.storage]
        made = relax.Function(parameters, made.body, made.ret_ty, made.is_pure, made.attrs)
    return made.with_attr(REPEATED, _said(problem, plan, region)).with_attr(STORED, region.nbytes)


def _said(problem: Recomputation, plan: Plan, region: StorageRegion) -> str:
    calls, once = len(plan.sequence), len(problem.tasks.tasks)
    if calls == once:
        return "no call runs again: the step fits the budget"
    more = plan.seconds / sum(problem.seconds) - 1
    again = calls - once - sum(map(problem.is_copy, plan.sequence))
    waiting = (
        f", {len(region.offsets)} tensors wait in {region.nbytes:,} bytes of storage"
        if region.offsets
        else ""
    )
    own = calls - sum(map(problem.is_copy, plan.sequence))
    work = f"about {more:.1%} more work{problem.measured_part}"
    return f"{again} of {own} calls run again{waiting}, {work}"
