"""Calls run again, so that a step fits a budget: what they made is dropped in between.

    calls ─recomputation_of→ Recomputation ─frontier→ Plans ─the first that fits→ more bindings

The calls are in their order by now, and stay in it. A call that runs again is a binding of its own,
as are the views of its results; their variables end in `_again`. With a storage, results may be
copied there and back instead: the function has one more argument then, its last one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import tvm
from tvm import relax

from odtc.core.errors import BudgetError
from odtc.core.memory_plan import Origin
from odtc.core.relax_calls import operator_of
from odtc.core.tensor_tags import tags_of
from odtc.passes.bindings import with_bindings
from odtc.passes.calls import Calls, workspaces_in
from odtc.passes.checkpoint.arena import arena_of
from odtc.passes.checkpoint.call_time import Cost
from odtc.passes.checkpoint.dependence import dependence
from odtc.passes.checkpoint.frontier import frontier, lowest_of
from odtc.passes.checkpoint.problem import Plan, Recomputation, Storage, highest_of, plan_of
from odtc.passes.checkpoint.region import Region, region_of
from odtc.passes.checkpoint.validate import validate
from odtc.passes.contract import Pass
from odtc.passes.immediate_update import IN_PLACE
from odtc.passes.memory.record import named
from odtc.passes.replay import Replay, Waiting
from odtc.passes.storage_copies import StorageCopies

# Attributes of a function: what is said of the calls that run again, and bytes of its storage.
REPEATED, STORED = "odtc.repeated", "odtc.stored"


@dataclass(frozen=True)
class InsertCheckpoints(Pass):
    """Lets calls of a function run again, so that what is alive fits a budget.

    Functions hold no dataflow blocks, and kernels no blocks.

    Attributes:
        function: name of the training step.
        budget: bytes of the arena, and of what is beside it.
        slots: the most threads that run a kernel.
        cost: of a call; only its proportions matter.
        origins: of the tensors that variables are named by, for messages.
        beside: bytes of the budget that other things than the arena need.
        chosen: the plan, where it is known.
        storage: that results may wait in.

    Raises:
        BudgetError: no plan is found that fits.
    """

    name: ClassVar[str] = "insert-checkpoints"
    function: str
    budget: int
    slots: int
    cost: Cost = field(repr=False)
    origins: Sequence[Origin] = field(default=(), repr=False)
    beside: int = 0
    chosen: Plan | None = field(default=None, repr=False)
    storage: Storage | None = None

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites the function."""
        function = module[self.function]
        calls = Calls(function, workspaces_in(module, self.slots))
        problem = recomputation_of(calls, module, self.cost, self.storage)
        plan = self.chosen or self._fastest(calls, problem)
        (repeated,), rewritten = replayed(module, function, calls, problem, [plan])
        rewritten.update_func(module.get_global_var(self.function), repeated)
        return relax.transform.Normalize()(rewritten)

    @property
    def functions(self) -> tuple[str, ...]:
        """The training step's name."""
        return (self.function,)

    def _fits(self, problem: Recomputation, plan: Plan) -> bool:
        """Whether a plan is within the budget, as it is packed."""
        room = self.budget - self.beside
        return plan.peak <= room and arena_of(problem, plan) <= room

    def _fastest(self, calls: Calls, problem: Recomputation) -> Plan:
        """The fastest plan that fits; the others are only made if the step as it is does not."""
        as_it_is = plan_of(problem, range(len(calls.bindings)))
        if self._fits(problem, as_it_is):
            return as_it_is
        plans = frontier(problem)
        for plan in plans:
            if self._fits(problem, plan):
                return plan
        lowest = lowest_of(plans)
        highest = calls.bindings[highest_of(problem, lowest)]
        tags = tags_of(highest.var.name) if self.origins else ()
        floor = arena_of(problem, lowest) + self.beside
        raise BudgetError(
            f"the step needs at least {floor:,} bytes beside its parameters; the budget is "
            f"{self.budget:,}",
            where=", ".join(map(str, named(tags, self.origins))) or highest.value.args[0].name_hint,
            hint="give a larger budget, a smaller batch or --precision mixed, or freeze layers",
            least=floor,
        )


def replayed(
    module: tvm.IRModule,
    function: relax.Function,
    calls: Calls,
    problem: Recomputation,
    plans: Sequence[Plan],
) -> tuple[list[relax.Function], tvm.IRModule]:
    """A function with its calls as each of several plans has them, and what they call.

    Returns:
        The functions, with what is said of each as `REPEATED`, all with the same arguments; and a
        copy of the module, with kernels that copy to the storage and back.
    """
    regions = [region_of(problem, plan) for plan in plans]
    nbytes = max(region.nbytes for region in regions)
    copies = StorageCopies(module.clone(), nbytes) if nbytes else None
    functions = [
        _replayed(function, calls, problem, plan, region, copies)
        for plan, region in zip(plans, regions, strict=True)
    ]
    return functions, copies.module if copies else module.clone()


def _replayed(
    function: relax.Function,
    calls: Calls,
    problem: Recomputation,
    plan: Plan,
    region: Region,
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


def _said(problem: Recomputation, plan: Plan, region: Region) -> str:
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


def recomputation_of(
    calls: Calls, module: tvm.IRModule, cost: Cost, storage: Storage | None = None
) -> Recomputation:
    """What there is to decide for the calls of a function."""
    kernels = [module[binding.value.args[0]] for binding in calls.bindings]
    results = {kernel: dependence(kernel) for kernel in kernels}
    costs = {kernel: cost(kernel) for kernel in kernels}
    until = [len(kernels)] * len(calls.tasks.sizes)
    for number, binding in enumerate(calls.bindings):
        kernel, task = kernels[number], calls.tasks.tasks[number]
        if operator_of(binding.value) == IN_PLACE:
            continue
        given = dict(zip(kernel.params, binding.value.args[1].fields, strict=False))
        made = kernel.params[len(given) :]
        for tensor, parameter in zip(task.allocates, made, strict=False):
            written = results[kernel].get(parameter, frozenset())
            read = [calls.roots(given[each]) for each in written if each in given]
            sources = frozenset([binding.var]).union(*read)
            changes = [at for each in sources for at in calls.changes.get(each, ())]
            until[tensor] = min((at for at in changes if at > number), default=len(kernels))
    sizes = list(calls.tasks.sizes)
    for tensor in calls.tasks.kept:
        # A result has storage of its own.
        until[tensor] = sizes[tensor] = 0
    tasks = replace(calls.tasks, sizes=tuple(sizes))
    times = [costs[kernel] for kernel in kernels]
    seconds, measured = (
        tuple(each.seconds for each in times),
        sum(each.is_measured for each in times),
    )
    return Recomputation(tasks, seconds, tuple(until), _turn(calls), storage, measured)


def _turn(calls: Calls) -> int:
    """The first call that makes a gradient."""
    tags = (tags_of(binding.var.name)[:1] for binding in calls.bindings)
    gradients = (at for at, first in enumerate(tags) if any(tag.gradient for tag in first))
    return next(gradients, len(calls.bindings))
