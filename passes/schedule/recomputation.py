"""The recomputation problem of a step whose kernels are scheduled and have no blocks.

    calls in their order ─recomputation_of→ Recomputation

Seconds of a call come from the caller; which results may be made again, and until when, from what
kernels read and what later calls change in place.
"""

import tvm

from odtc.core.ir.relax_calls import operator_of
from odtc.core.ir.tensor_tags import tags_of
from odtc.passes.checkpoint.call_time import Cost
from odtc.passes.checkpoint.dependence import dependence
from odtc.passes.checkpoint.problem import Recomputation, Storage
from odtc.passes.graph.immediate_update import IN_PLACE
from odtc.passes.ir.calls import Calls
from odtc.passes.memory.operator_order import Tasks, in_arena
from odtc.passes.memory.turn import turn_between


def recomputation_of(
    calls: Calls, module: tvm.IRModule, cost: Cost, storage: Storage | None = None
) -> Recomputation:
    """The recomputation problem of a function's calls."""
    kernels = [module[binding.value.args[0]] for binding in calls.bindings]
    # What has one result reads all of its arguments for that.
    several = (
        kernel
        for kernel, binding in zip(kernels, calls.bindings, strict=True)
        if len(kernel.params) - len(binding.value.args[1].fields) > 1
    )
    # Many calls share a kernel.
    results = {kernel: dependence(kernel) for kernel in dict.fromkeys(several)}
    costs = {kernel: cost(kernel) for kernel in dict.fromkeys(kernels)}
    until = [len(kernels)] * len(calls.tasks.sizes)
    for number, binding in enumerate(calls.bindings):
        kernel, task = kernels[number], calls.tasks.tasks[number]
        if operator_of(binding.value) == IN_PLACE:
            continue
        given = dict(zip(kernel.params, binding.value.args[1].fields, strict=False))
        made = kernel.params[len(given) :]
        for tensor, parameter in zip(task.allocates, made, strict=False):
            named = results[kernel].get(parameter, frozenset()) if kernel in results else given
            read = [calls.roots(given[each]) for each in named if each in given]
            sources = frozenset([binding.var]).union(*read)
            changes = [at for each in sources for at in calls.changes.get(each, ())]
            until[tensor] = min((at for at in changes if at > number), default=len(kernels))
    for tensor in calls.tasks.kept:
        until[tensor] = 0
    tasks = in_arena(calls.tasks)
    times = [costs[kernel] for kernel in kernels]
    seconds, measured = (
        tuple(each.seconds for each in times),
        sum(each.is_measured for each in times),
    )
    return Recomputation(tasks, seconds, tuple(until), _turn(calls), storage, measured)


def _turn(calls: Calls) -> int:
    """The first call of the backward pass, of which is what makes or reads a gradient.

    A gradient that the loss needs is the share of a label in a mean of those that count.
    """
    needed, gradients, backward = _needed(calls.tasks), set[int](), set[int]()
    for number, (binding, task) in enumerate(zip(calls.bindings, calls.tasks.tasks, strict=True)):
        is_gradient = any(tag.gradient for tag in tags_of(binding.var.name)[:1])
        reads_gradient = not gradients.isdisjoint(task.reads)
        if needed.isdisjoint(task.allocates) and (is_gradient or reads_gradient):
            backward.add(number)
            gradients.update(task.allocates)
    count = len(calls.bindings)
    return turn_between(set(range(count)) - backward, backward, count)


def _needed(tasks: Tasks) -> set[int]:
    """The tensors that a step returns, such as its loss, and those that they are computed from."""
    found = set(tasks.kept)
    for task in reversed(tasks.tasks):
        if not found.isdisjoint(task.allocates):
            found |= task.reads
    return found
