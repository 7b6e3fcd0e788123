"""The kernel calls of a function, as tasks: what each makes, reads, and has to come after.

What a call needs are the results that it reads and, of a tensor that is updated in place, the calls
that read or wrote it before.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import tvm
from tvm import ir, relax, tirx

from odtc.core.ir.outline_marks import WORKSPACES
from odtc.core.ir.relax_calls import operator_of
from odtc.passes.graph.immediate_update import IN_PLACE, KERNEL_CALLS, changed_variables
from odtc.passes.ir.bindings import bindings_of
from odtc.passes.ir.tensor_bytes import tensor_bytes
from odtc.passes.memory.operator_order import Task, Tasks
from odtc.passes.memory.packing.problem import TENSOR_ALIGNMENT
from odtc.passes.memory.workspaces import Heights


def workspaces_in(module: tvm.IRModule, slots: int) -> dict[ir.GlobalVar, int]:
    """Bytes of the workspace of each kernel, for at most so many threads."""
    return {
        variable: _workspace(kernel, slots)
        for variable, kernel in module.functions_items()
        if isinstance(kernel, tirx.PrimFunc)
    }


def _workspace(kernel: tirx.PrimFunc, slots: int) -> int:
    noted = (kernel.attrs or {}).get(WORKSPACES)
    return Heights(slots).of(kernel.body) if noted is None else int(noted[str(slots)])


class Calls:
    """The kernel calls of a function, and the tasks that they are.

    Attributes:
        bindings: of kernel calls.
        tasks: one for each. Its tensors are its results and its workspace, which nothing reads.
        changes: of each argument or result that is changed in place the calls that do it, in order.
    """

    def __init__(self, function: relax.Function, workspaces: Mapping[ir.GlobalVar, int]) -> None:
        self._workspaces = workspaces
        self.bindings: list[relax.Binding] = []
        self._sizes: list[int] = []
        # The tensors that a variable may stand for.
        self._tensors: dict[relax.Var, frozenset[int]] = {}
        self._fields: dict[relax.Var, Sequence[int]] = {}
        self.changes: dict[relax.Var, list[int]] = defaultdict(list)
        # The calls that read each argument or result since it was changed.
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
        self.tasks = Tasks(tuple(tasks), tuple(self._sizes), returned)

    def roots(self, variable: relax.Expr) -> frozenset[relax.Var]:
        """The arguments and results that a variable may share its memory with."""
        return self._roots.get(variable, frozenset())

    def tensors_of(self, variable: relax.Expr) -> frozenset[int]:
        """The results of calls that a variable may stand for."""
        return self._tensors.get(variable, frozenset())

    def _read(self, value: relax.Expr) -> frozenset[int]:
        """The results that a value reads."""
        read = relax.analysis.free_vars(value)
        return frozenset().union(*(self._tensors.get(each, ()) for each in read))

    def _view(self, binding: relax.Binding) -> None:
        value, read = binding.value, relax.analysis.free_vars(binding.value)
        self._roots[binding.var] = frozenset().union(*map(self.roots, read))
        if isinstance(value, relax.TupleGetItem) and value.tuple_value in self._fields:
            self._tensors[binding.var] = frozenset([self._fields[value.tuple_value][value.index]])
        else:
            self._tensors[binding.var] = self._read(value)

    def _task(self, binding: relax.Binding) -> Task:
        number, value = len(self.bindings), binding.value
        in_place = operator_of(value) == IN_PLACE
        changed = frozenset().union(
            *(self.roots(each) for each in (changed_variables(binding) if in_place else ()))
        )
        read = frozenset().union(*map(self.roots, relax.analysis.free_vars(value)))
        after = {self.changes[each][-1] for each in read if each in self.changes}
        for argument in changed:
            after.update(self._reading.pop(argument, ()))
            self.changes[argument].append(number)
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
        # What is changed in place may be a result of another call.
        changing = changed_variables(binding) if in_place else ()
        self._tensors[binding.var] = frozenset(made).union(*map(self.tensors_of, changing))
        workspace = self._new(self._workspaces[value.args[0]])
        return Task((*made, workspace), reads, frozenset(after))

    def _results(self, type_: relax.Type) -> Iterator[int]:
        for field in type_.fields if isinstance(type_, relax.TupleType) else [type_]:
            yield self._new(tensor_bytes(field.shape, str(field.dtype)))

    def _new(self, size: int) -> int:
        self._sizes.append(-(-size // TENSOR_ALIGNMENT) * TENSOR_ALIGNMENT)
        return len(self._sizes) - 1


def with_views(
    bindings: Sequence[relax.Binding], function: relax.Function
) -> Iterator[relax.Binding]:
    """The calls, each after the views that it reads, and at the end those that nothing reads."""
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


def without_unused(module: tvm.IRModule, kernels: Iterable[ir.GlobalVar]) -> tvm.IRModule:
    """A module without those of some kernels that nothing calls any more."""
    called: set[ir.GlobalVar] = set()
    for function in module.functions.values():
        if isinstance(function, relax.Function):
            called |= {
                binding.value.args[0]
                for binding in bindings_of(function)
                if operator_of(binding.value) in KERNEL_CALLS
            }
    gone = set(kernels) - called
    return tvm.IRModule(
        {each: function for each, function in module.functions_items() if each not in gone},
        attrs=module.attrs,
    )
