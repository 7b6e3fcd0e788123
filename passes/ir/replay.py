"""The bindings of a function whose calls run in the sequence of a plan."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import tvm_ffi
from tvm import ir, relax

from odtc.passes.checkpoint.problem import Recomputation
from odtc.passes.ir.bindings import bindings_of
from odtc.passes.ir.calls import Calls
from odtc.passes.schedule.storage_copies import StorageCopies

AGAIN = "_again"


@dataclass(frozen=True)
class Waiting:
    """Where tensors of a function wait that a plan stores.

    Attributes:
        copies: of them.
        storage: the function's argument.
        offsets: of tensors in it.
    """

    copies: StorageCopies
    storage: relax.Var
    offsets: Mapping[int, int] = field(default_factory=dict)


class Replay:
    """Bindings of calls, some of them again, with the views that they read.

    Args:
        function: that the calls are of.
        calls: of kernels.
        problem: that says which tensors the calls make.
        waiting: what a plan stores, if it does.
    """

    def __init__(
        self,
        function: relax.Function,
        calls: Calls,
        problem: Recomputation,
        waiting: Waiting | None = None,
    ) -> None:
        self._calls, self._problem, self._waiting = calls.bindings, problem, waiting
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
            if self._problem.is_copy(number):
                yield from self._copied(number)
                continue
            binding = self._calls[number]
            yield from self._read(binding.value)
            value = self._current(binding.value)
            self._forget(binding.var)
            yield self._bind(binding.var, value)
        yield from self._read(self._result)

    def _copied(self, number: int) -> Iterator[relax.Binding]:
        """The bindings that store or fetch a tensor."""
        assert self._waiting is not None
        copies, storage = self._waiting.copies, self._waiting.storage
        tensor = self._problem.moved(number)
        first, *others = self._variables_of(tensor)
        offset = self._waiting.offsets[tensor]
        if self._problem.is_fetch(number):
            for each in (first, *others):
                self._forget(each)
            yield self._bind(first, copies.fetch(first.ty, storage, offset))
            self._now |= dict.fromkeys(others, self._now[first])
        else:
            yield from self._read(first)
            call = copies.store(self._now[first], storage, offset)
            yield relax.VarBinding(relax.Var(f"{first.name}_stored", call.ty), call)

    def _variables_of(self, tensor: int) -> list[relax.Var]:
        """The variables that are a tensor: the result of a call, or a field of it."""
        maker = self._problem.tasks.makers[tensor]
        variable = self._calls[maker].var
        if not isinstance(variable.ty, relax.TupleType):
            return [variable]
        place = self._problem.tasks.tasks[maker].allocates.index(tensor)
        views = ((each, self._views[each].value) for each in self._views_of[variable])
        return [
            each
            for each, value in views
            if isinstance(value, relax.TupleGetItem) and value.index == place
        ]

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
