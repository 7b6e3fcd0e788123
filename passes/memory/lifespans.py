"""Lifespans of the tensors of a step.

A step is a list of calls by now: each tensor is allocated, written by one kernel, and read by
others. Views, tuples and other names of a tensor keep it alive.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tvm import ir, relax

from odtc.core.ir.relax_calls import operator_of
from odtc.passes.ir.bindings import bindings_of
from odtc.passes.ir.tensor_bytes import tensor_bytes
from odtc.passes.memory.packing.problem import Buffer, PackingProblem

_ALLOCATION = "relax.builtin.alloc_tensor"


@dataclass(frozen=True)
class Lifespans:
    """The tensors of a function that may lie in an arena.

    Attributes:
        tensors: by the number of the binding that allocates them: first and last binding that they
            live in. What the function returns is not among them.
        bytes: of each.
    """

    tensors: Mapping[int, tuple[int, int]]
    bytes: Mapping[int, int]

    def problem(self) -> PackingProblem:
        """Returns the packing problem: a buffer for each tensor, named by its number."""
        return PackingProblem(
            [
                Buffer(str(number), first, last + 1, self.bytes[number])
                for number, (first, last) in self.tensors.items()
            ]
        )


def _is_allocation(value: relax.Expr) -> bool:
    """Whether a binding's value is a new tensor."""
    return operator_of(value) == _ALLOCATION


def lifespans_of(function: relax.Function) -> Lifespans:
    """The lifespans of a function's tensors, counted in bindings."""
    # The tensors that a variable may alias; of a tuple those of each field.
    named: dict[relax.Var, _Names] = {}
    spans: dict[int, tuple[int, int]] = {}
    sizes: dict[int, int] = {}
    for number, binding in enumerate(bindings_of(function)):
        value = binding.value
        if _is_allocation(value):
            named[binding.var] = frozenset([number])
            spans[number] = (number, number)
            sizes[number] = tensor_bytes(value.args[0], str(value.args[1].value))
            continue
        named[binding.var] = _names(value, named)
        if isinstance(value, relax.Call):
            for used in _flat(_read(value, named)):
                spans[used] = (spans[used][0], number)
    returned = _flat(_names(function.body.body, named))
    kept = {number: span for number, span in spans.items() if number not in returned}
    return Lifespans(kept, {number: sizes[number] for number in kept})


# Numbers of tensors, or of the tensors of each field of a tuple.
_Names = frozenset[int] | tuple["_Names", ...]
_NOTHING: frozenset[int] = frozenset()


def _names(value: relax.Expr, named: Mapping[relax.Var, _Names]) -> _Names:
    """The tensors that a value aliases, where it is not a new one."""
    if isinstance(value, relax.Var):
        return named.get(value, _NOTHING)
    if isinstance(value, relax.Tuple):
        return tuple(_names(field, named) for field in value.fields)
    if isinstance(value, relax.TupleGetItem):
        fields = _names(value.tuple_value, named)
        return fields[value.index] if isinstance(fields, tuple) else fields
    if isinstance(value, relax.Call) and isinstance(value.op, ir.Op):
        # No kernel: it may be a view of any of its arguments.
        return frozenset(_flat(_read(value, named)))
    return _NOTHING


def _read(value: relax.Expr, named: Mapping[relax.Var, _Names]) -> _Names:
    """The tensors that a value reads or writes."""
    return tuple(named.get(variable, _NOTHING) for variable in relax.analysis.free_vars(value))


def _flat(names: _Names) -> set[int]:
    if isinstance(names, tuple):
        return set().union(*map(_flat, names))
    return set(names)
