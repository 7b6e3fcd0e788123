"""Calls run in the order in which fewest bytes are alive.

Autodiff gives one order of many that are right: branches could wait, and a gradient of weights
could come before or after that of data. What a call needs are the results that it reads and, of a
tensor that is updated in place, the calls that read or wrote it before.

    calls ─tasks→ Tasks ─lowest_order→ Order ─→ the same bindings in that order
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import tvm
from tvm import ir, relax, tirx

from odtc.core.relax_calls import operator_of
from odtc.passes.bindings import bindings_of, with_bindings
from odtc.passes.contract import Pass
from odtc.passes.immediate_update import IN_PLACE, KERNEL_CALLS, changed_variables
from odtc.passes.memory.lifespans import tensor_bytes
from odtc.passes.memory.operator_order import Task, Tasks, lowest_order
from odtc.passes.memory.problem import TENSOR_ALIGNMENT
from odtc.passes.memory.workspaces import height_of


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
        workspaces = {
            variable: height_of(kernel.body, self.slots)
            for variable, kernel in module.functions_items()
            if isinstance(kernel, tirx.PrimFunc)
        }
        for variable, function in module.functions_items():
            if isinstance(function, relax.Function):
                ordered.update_func(variable, _ordered(function, workspaces))
        return relax.transform.Normalize()(ordered)


def _ordered(function: relax.Function, workspaces: Mapping[ir.GlobalVar, int]) -> relax.Function:
    calls = _Calls(function, workspaces)
    order = lowest_order(calls.tasks).order
    bindings = [calls.bindings[number] for number in order]
    return with_bindings(function, list(_with_views(bindings, function)))


class _Calls:
    """The kernel calls of a function, and the tasks that they are.

    Attributes:
        bindings: of kernel calls.
        tasks: one for each. Its tensors are its results and its workspace, which nothing reads.
    """

    def __init__(self, function: relax.Function, workspaces: Mapping[ir.GlobalVar, int]) -> None:
        self._workspaces = workspaces
        self.bindings: list[relax.Binding] = []
        self._sizes: list[int] = []
        # The tensors that a variable may stand for.
        self._tensors: dict[relax.Var, frozenset[int]] = {}
        self._fields: dict[relax.Var, Sequence[int]] = {}
        # Of each argument or result the call that changed it last, and those that read it since.
        self._changed: dict[relax.Var, int] = {}
        self._reading: dict[relax.Var, list[int]] = defaultdict(list)
        # The arguments and results that a variable may share its memory with.
        self._roots = {argument: frozenset([argument]) for argument in function.params}
        tasks = []
        for binding in bindings_of(function):
            if operator_of(binding.value) in KERNEL_CALLS:
                tasks.append(self._task(binding))
                self.bindings.append(binding)
            else:
                self._view(binding)
        returned = self._read(function.body.body)
        self.tasks = Tasks(tasks, self._sizes, returned)

    def _read(self, value: relax.Expr) -> frozenset[int]:
        """The results that a value reads."""
        read = relax.analysis.free_vars(value)
        return frozenset().union(*(self._tensors.get(each, ()) for each in read))

    def _view(self, binding: relax.Binding) -> None:
        value, read = binding.value, relax.analysis.free_vars(binding.value)
        arguments = (self._roots.get(each, frozenset()) for each in read)
        self._roots[binding.var] = frozenset().union(*arguments)
        if isinstance(value, relax.TupleGetItem) and value.tuple_value in self._fields:
            self._tensors[binding.var] = frozenset([self._fields[value.tuple_value][value.index]])
        else:
            self._tensors[binding.var] = self._read(value)

    def _task(self, binding: relax.Binding) -> Task:
        number, value = len(self.bindings), binding.value
        in_place = operator_of(value) == IN_PLACE
        changed = frozenset().union(
            *(self._roots[each] for each in (changed_variables(binding) if in_place else ()))
        )
        read = frozenset().union(
            *(self._roots.get(each, ()) for each in relax.analysis.free_vars(value))
        )
        after = {self._changed[each] for each in read if each in self._changed}
        for argument in changed:
            after.update(self._reading.pop(argument, ()))
            self._changed[argument] = number
        for argument in read - changed:
            self._reading[argument].append(number)
        if in_place:
            # Its results are what it changed.
            self._roots[binding.var] = changed
            made = ()
        else:
            self._roots[binding.var] = frozenset([binding.var])
            made = tuple(self._results(binding.var.ty))
            self._fields[binding.var] = made
        reads = self._read(value)
        self._tensors[binding.var] = frozenset(made)
        workspace = self._new(self._workspaces[value.args[0]])
        return Task((*made, workspace), reads, frozenset(after))

    def _results(self, type_: relax.Type) -> Iterator[int]:
        for field in type_.fields if isinstance(type_, relax.TupleType) else [type_]:
            yield self._new(tensor_bytes(field.shape, str(field.dtype)))

    def _new(self, size: int) -> int:
        self._sizes.append(-(-size // TENSOR_ALIGNMENT) * TENSOR_ALIGNMENT)
        return len(self._sizes) - 1


def _with_views(
    bindings: Sequence[relax.Binding], function: relax.Function
) -> Iterator[relax.Binding]:
    """The calls, each behind the views that it reads, and at the end those that nothing reads."""
    calls = {binding.var for binding in bindings}
    views = {b.var: b for b in bindings_of(function) if b.var not in calls}

    def needed(value: relax.Expr) -> Iterator[relax.Binding]:
        for variable in relax.analysis.free_vars(value):
            view = views.pop(variable, None)
            if view is not None:
                yield from needed(view.value)
                yield view

    for binding in bindings:
        yield from needed(binding.value)
        yield binding
    yield from views.values()
