"""Updates of small parameters share launches of a GPU.

An update reads and writes each element once; for a small parameter a GPU takes longer to launch it.
So an update that is one launch waits for the next ones, as long as their gradients are few bytes
beside those that the step has anyway at one time, and nothing reads what it would have changed.
Each element is computed as before, so that no bit changes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import tvm
from tvm import ir, relax

from odtc.core.ir.kernel_marks import ONE_OF
from odtc.core.ir.relax_calls import operator_of
from odtc.passes.contract import Pass
from odtc.passes.graph.immediate_update import (
    IN_PLACE,
    changed_variables,
    read_variables,
)
from odtc.passes.ir.bindings import bindings_of, with_bindings
from odtc.passes.ir.calls import Calls, without_unused, workspaces_in
from odtc.passes.kernel.merge_launches import Launch, launch_of, merge
from odtc.passes.memory.operator_order import peak_of

# Of the bytes that are alive at the peak, those of gradients that wait are at most so small a part.
_PART = 128
# A kernel of more updates would take a phone's driver long to compile.
_MOST = 32


@dataclass(frozen=True)
class GroupUpdates(Pass):
    """Merges in-place calls of a training step, whose calls have their order already.

    Attributes:
        function: name of the training step; its body holds no dataflow block.
        buffers: that a launch is given, at most.
    """

    name: ClassVar[str] = "group-updates"
    function: str = field(repr=False)
    buffers: int

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites the function, and adds the kernels that are merged ones."""
        function = module[self.function]
        calls = Calls(function, workspaces_in(module, 1))
        order = range(len(calls.tasks.tasks))
        limit = peak_of(calls.tasks, order) // _PART
        builder = relax.BlockBuilder(module)
        grouping = _Grouping(builder, calls, _Limits(limit, self.buffers))
        rewritten = with_bindings(function, list(grouping.bindings(bindings_of(function))))
        module = builder.get()
        module.update_func(module.get_global_var(self.function), rewritten)
        return relax.transform.Normalize()(without_unused(module, grouping.merged))


@dataclass(frozen=True)
class _Limits:
    """Of a group: bytes of gradients that wait, and buffers of the launch."""

    nbytes: int
    buffers: int


@dataclass(frozen=True)
class _Update:
    """An in-place call that can be merged with others.

    Attributes:
        binding: the call.
        launch: of its kernel.
        nbytes: of the tensors of the step that it reads.
        changed: arguments that it changes.
        read: arguments and results that it reads.
    """

    binding: relax.Binding
    launch: Launch
    nbytes: int
    changed: frozenset[relax.Var]
    read: frozenset[relax.Var]

    @property
    def given(self) -> list[relax.Var]:
        """The arguments of its kernel."""
        return list(self.binding.value.args[1].fields)

    @property
    def every(self) -> int:
        """In one of how many calls it does its work."""
        return int(self.launch.kernel.attrs.get(ONE_OF, 1))


class _Grouping:
    """The bindings of a step, with groups in place of their updates.

    Attributes:
        merged: kernels of updates that are part of a group.
    """

    def __init__(self, builder: relax.BlockBuilder, calls: Calls, limits: _Limits) -> None:
        self._builder, self._calls, self._limits = builder, calls, limits
        self._tasks = dict(
            zip((each.var for each in calls.bindings), calls.tasks.tasks, strict=True)
        )
        self._launches: dict[ir.GlobalVar, Launch | None] = {}
        self._waiting: list[_Update] = []
        self.merged: set[ir.GlobalVar] = set()

    def bindings(self, given: Sequence[relax.Binding]) -> Iterator[relax.Binding]:
        for binding in given:
            update = self._update(binding)
            if self._is_hindered(binding, update):
                yield from self._release()
            if update is None:
                yield binding
            else:
                self._waiting.append(update)
        yield from self._release()

    def _update(self, binding: relax.Binding) -> _Update | None:
        """A binding as an update that can wait, if it is one."""
        if operator_of(binding.value) != IN_PLACE:
            return None
        kernel = binding.value.args[0]
        if kernel not in self._launches:
            self._launches[kernel] = launch_of(self._builder.get()[kernel])
        launch, tasks = self._launches[kernel], self._calls.tasks
        nbytes = sum(tasks.sizes[tensor] for tensor in self._tasks[binding.var].reads)
        if launch is None or nbytes > self._limits.nbytes:
            return None
        changed = self._roots(changed_variables(binding))
        return _Update(binding, launch, nbytes, changed, self._roots(read_variables(binding)))

    def _roots(self, variables: Sequence[relax.Var]) -> frozenset[relax.Var]:
        return frozenset().union(*map(self._calls.roots, variables))

    def _is_hindered(self, binding: relax.Binding, update: _Update | None) -> bool:
        """Whether what waits has to run before a binding, or cannot be merged with it."""
        read = read_variables(binding)
        results = {each.binding.var for each in self._waiting}
        touched = frozenset().union(*(each.changed for each in self._waiting))
        needed = frozenset().union(*(each.read for each in self._waiting))
        changes = changed_variables(binding) if operator_of(binding.value) == IN_PLACE else []
        if results & set(read) or touched & self._roots(read) or needed & self._roots(changes):
            return True
        return update is not None and not self._fits([*self._waiting, update])

    def _fits(self, updates: Sequence[_Update]) -> bool:
        buffers = {variable for each in updates for variable in each.given}
        return (
            len(updates) <= _MOST
            and len(buffers) <= self._limits.buffers
            and sum(each.nbytes for each in updates) <= self._limits.nbytes
            and len({each.every for each in updates}) == 1
        )

    def _release(self) -> Iterator[relax.Binding]:
        """The bindings of one call for all updates that wait."""
        updates, self._waiting = self._waiting, []
        if len(updates) < 2:
            yield from (each.binding for each in updates)
            return
        changed = [each for update in updates for each in changed_variables(update.binding)]
        others = {each: None for update in updates for each in update.given if each not in changed}
        order = [*changed, *others]
        self.merged |= {each.binding.value.args[0] for each in updates}
        kernel = merge([each.launch for each in updates], [u.given for u in updates], order)
        call = relax.op.call_tir_inplace(
            self._builder.add_func(kernel, "updates"),
            relax.Tuple(order),
            list(range(len(changed))),
            [each.ty for each in changed],
        )
        call = self._builder.normalize(call)
        whole = relax.Var("updates", call.ty)
        yield relax.VarBinding(whole, call)
        fields = iter(relax.TupleGetItem(whole, at) for at in range(len(changed)))
        for update in updates:
            own = [next(fields) for _ in changed_variables(update.binding)]
            value = own[0] if len(own) == 1 else relax.Tuple(own)
            yield relax.VarBinding(update.binding.var, value)
