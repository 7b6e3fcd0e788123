"""A training step whose kernel calls have their order, and what there is to decide of them.

    scheduled kernels ─order-phase─┬→ calls ─recomputation_of→ Recomputation, plans ─build→ Built
                                   └→ calls for another number of threads ─→ their peak

Plans are the caller's: nothing here looks for them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import tvm

from odtc.backends.cost.call_cost import call_cost, storage_cost
from odtc.backends.cost.measured_times import NOTHING, MeasuredTimes
from odtc.backends.families import family_of
from odtc.backends.lowering import Lowered, plan_kernels
from odtc.backends.pipeline.phases import order_phase
from odtc.backends.targets import Target
from odtc.core.artifact.memory_plan import Origin
from odtc.core.ir.product_marks import WINOGRAD
from odtc.core.ir.tensor_tags import tags_of
from odtc.passes.checkpoint.problem import Plan, Recomputation
from odtc.passes.contract import run_pipeline
from odtc.passes.ir.calls import Calls, workspaces_in
from odtc.passes.memory.operator_order import in_arena, lowest_order, peak_of
from odtc.passes.memory.record import named
from odtc.passes.schedule.insert_checkpoints import InsertCheckpoints
from odtc.passes.schedule.recomputation import recomputation_of


@dataclass(frozen=True, eq=False)
class Ordered:
    """A step that can be compiled by plans.

    Attributes:
        module: calls of scheduled kernels, in their order.
        target: what to compile for.
        function: name of the step.
        calls: of it.
        problem: what there is to decide of them.
    """

    module: tvm.IRModule
    target: Target
    function: str
    calls: Calls
    problem: Recomputation

    def lower(self, plans: Sequence[Plan], origins: Sequence[Origin] = ()) -> Lowered:
        """Plans the storage of the step by each of some plans.

        Args:
            plans: of its problem.
            origins: of the tensors that its variables are named by.

        Raises:
            UnsupportedError: as of `build_kernels`.
        """
        slots = family_of(self.target).slots
        checkpoints = InsertCheckpoints(self.function, slots, self.problem, plans)
        return plan_kernels(
            self.module, self.target, self.function, origins=origins, checkpoints=checkpoints
        )

    def peak_for(self, threads: int) -> int:
        """Bytes that are alive at once in the step as it is, were it made for this many threads.

        The order of calls goes by their workspaces, of which each thread has its own.
        """
        slots = family_of(replace(self.target, threads=threads)).slots
        # The order of the step's own threads is a good one to begin with, and mostly the lowest.
        tasks = Calls(self.module[self.function], workspaces_in(self.module, slots)).tasks
        return peak_of(in_arena(tasks), lowest_order(tasks).order)

    @property
    def winograd_bytes(self) -> int:
        """Of the largest workspace of a convolution in Winograd's form; 0 where there is none."""
        sizes, kernels = self.problem.tasks.sizes, (c.value.args[0] for c in self.calls.bindings)
        return max(
            (
                sizes[task.allocates[-1]]
                for task, kernel in zip(self.problem.tasks.tasks, kernels, strict=True)
                if WINOGRAD in self.module[kernel].attrs
            ),
            default=0,
        )

    def name_of(self, task: int, origins: Sequence[Origin] = ()) -> str:
        """Names the result of a call in words of the model; its kernel where nothing is known.

        Args:
            task: number of the call.
            origins: of the tensors that variables are named by.
        """
        call = self.calls.bindings[task]
        tags = tags_of(call.var.name) if origins else ()
        return ", ".join(map(str, named(tags, origins))) or call.value.args[0].name_hint


def in_order(
    scheduled: tvm.IRModule,
    target: Target,
    train_step: str,
    times: MeasuredTimes = NOTHING,
    *,
    offload: bool = False,
) -> Ordered:
    """A module of scheduled kernels with its calls in their order.

    Args:
        scheduled: the module.
        target: what to compile for.
        train_step: name of the training step.
        times: of calls that were measured on the target.
        offload: whether tensors may wait in the target's storage.
    """
    family = family_of(target)
    module = run_pipeline(order_phase(train_step, family, may_wait=offload), scheduled)
    calls = Calls(module[train_step], workspaces_in(module, family.slots))
    storage = storage_cost(target) if offload else None
    problem = recomputation_of(calls, module, call_cost(target, times), storage)
    return Ordered(module, target, train_step, calls, problem)
