"""Calls run again, so that a step fits a budget: what they made is dropped in between.

    calls ─recomputation_of→ Recomputation ─frontier→ Plans ─the first that fits→ more bindings

The calls are in their order by now, and stay in it. A call that runs again is a binding of its own,
as are the views of its results; their variables end in `_again`.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import tvm
import tvm_ffi
from tvm import ir, relax, tirx

from odtc.core.errors import BudgetError
from odtc.core.memory_plan import Origin
from odtc.core.relax_calls import operator_of
from odtc.core.tensor_tags import tags_of
from odtc.passes.bindings import bindings_of, with_bindings
from odtc.passes.calls import Calls, workspaces_in
from odtc.passes.checkpoint.arena import arena_of
from odtc.passes.checkpoint.dependence import dependence
from odtc.passes.checkpoint.frontier import frontier
from odtc.passes.checkpoint.problem import Plan, Recomputation, highest_of, plan_of
from odtc.passes.checkpoint.validate import validate
from odtc.passes.contract import Pass
from odtc.passes.immediate_update import IN_PLACE
from odtc.passes.memory.record import named

AGAIN = "_again"
# Attribute of a function: what is said of the calls that run again.
REPEATED = "odtc.repeated"
# Seconds that a call of a kernel takes.
Cost = Callable[[tirx.PrimFunc], float]


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

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites the function."""
        function = module[self.function]
        calls = Calls(function, workspaces_in(module, self.slots))
        problem = recomputation_of(calls, module, self.cost)
        plan = self.chosen or self._fastest(calls, problem)
        repeated = replayed(function, calls, problem, plan)
        rewritten = module.clone()
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
        highest = calls.bindings[highest_of(problem, plans[-1])]
        tags = tags_of(highest.var.name) if self.origins else ()
        floor = arena_of(problem, plans[-1]) + self.beside
        raise BudgetError(
            f"the step needs at least {floor:,} bytes beside its parameters; the budget is "
            f"{self.budget:,}",
            where=", ".join(map(str, named(tags, self.origins))) or highest.value.args[0].name_hint,
            hint="give a larger budget, a smaller batch or --precision mixed, or freeze layers",
            least=floor,
        )


def replayed(
    function: relax.Function, calls: Calls, problem: Recomputation, plan: Plan
) -> relax.Function:
    """The function with its calls as a plan has them, and what is said of it as `REPEATED`."""
    if len(plan.sequence) == len(calls.bindings):
        return function.with_attr(REPEATED, "no call runs again: the step fits the budget")
    validate(problem, plan)
    bindings = list(_Replay(function, calls).bindings(plan.sequence))
    return with_bindings(function, bindings).with_attr(REPEATED, _said(problem, plan))


def _said(problem: Recomputation, plan: Plan) -> str:
    again = len(plan.sequence) - len(problem.tasks.tasks)
    more = plan.seconds / sum(problem.seconds) - 1
    return f"{again} of {len(plan.sequence)} calls run again, about {more:.1%} more work"


def recomputation_of(calls: Calls, module: tvm.IRModule, cost: Cost) -> Recomputation:
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
    tasks = replace(calls.tasks, sizes=sizes)
    return Recomputation(tasks, [costs[kernel] for kernel in kernels], until, _turn(calls))


def _turn(calls: Calls) -> int:
    """The first call that makes a gradient."""
    tags = (tags_of(binding.var.name)[:1] for binding in calls.bindings)
    gradients = (at for at, first in enumerate(tags) if any(tag.gradient for tag in first))
    return next(gradients, len(calls.bindings))


class _Replay:
    """Bindings of calls, some of them again, with the views that they read."""

    def __init__(self, function: relax.Function, calls: Calls) -> None:
        self._calls = calls.bindings
        called = {binding.var for binding in calls.bindings}
        self._views = {b.var: b for b in bindings_of(function) if b.var not in called}
        self._views_of: dict[relax.Var, list[relax.Var]] = defaultdict(list)
        for variable, view in self._views.items():
            for source in relax.analysis.free_vars(view.value):
                self._views_of[source].append(variable)
        self._result = function.body.body
        # The copy of each variable that is read now, and all that were bound so far.
        self._now: dict[relax.Var, relax.Var] = {}
        self._bound: set[relax.Var] = set()

    def bindings(self, sequence: Sequence[int]) -> Iterator[relax.Binding]:
        """The bindings of a function that runs the calls in that sequence."""
        for number in sequence:
            binding = self._calls[number]
            yield from self._read(binding.value)
            value = self._current(binding.value)
            self._forget(binding.var)
            yield self._bind(binding.var, value)
        yield from self._read(self._result)

    def _read(self, value: relax.Expr) -> Iterator[relax.Binding]:
        """Bindings of the views that a value reads, as far as there are none."""
        for variable in relax.analysis.free_vars(value):
            if variable in self._views and variable not in self._now:
                view = self._views[variable]
                yield from self._read(view.value)
                yield self._bind(variable, self._current(view.value))

    def _bind(self, variable: relax.Var, value: relax.Expr) -> relax.Binding:
        copy = variable
        if variable in self._bound:
            copy = type(variable)(f"{variable.name}{AGAIN}", variable.ty)
        self._bound.add(variable)
        self._now[variable] = copy
        return relax.VarBinding(copy, value)

    def _current(self, value: relax.Expr) -> relax.Expr:
        """A value that reads the copies of now."""
        instead = {
            each: self._now[each]
            for each in relax.analysis.free_vars(value)
            if not self._now.get(each, each).same_as(each)
        }
        return tvm_ffi.structural_map(value, (ir.Var, lambda var: instead.get(var, var)))

    def _forget(self, variable: relax.Var) -> None:
        """Views of a result are views of its earlier copy."""
        stale = [variable]
        while stale:
            source = stale.pop()
            self._now.pop(source, None)
            stale += [each for each in self._views_of[source] if each in self._now]
