"""Cuts fused kernels whose expressions would be too large once they are written out."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import tvm
from tvm import ir, relax
from tvm.relax import transform as X  # noqa: N812

from odtc.core.ir.relax_calls import is_call
from odtc.passes.ir.bindings import bind, bindings_of, rebuilding, replaced
from odtc.passes.ir.written_out import Grown, kernel_sizes

# Nodes of an expression. LLVM is given those of an ordinary chain, some ten thousands, in
# milliseconds, and so many within a second.
LARGEST = 1 << 20
_PRIMITIVE = "Primitive"


@dataclass(frozen=True)
class _Part:
    """A fused kernel of some of the operators of a larger one.

    Attributes:
        kernel: the function of Relax that it is.
        reads: variables of the larger one, which are its arguments.
        makes: the variable of the larger one that is its result.
        fields: variables of the larger one that are taken of the result, where it is a tuple.
    """

    kernel: ir.GlobalVar
    reads: Sequence[relax.Var]
    makes: relax.Var
    fields: Mapping[relax.Var, int]


def split_fused(module: tvm.IRModule, grown: Grown) -> tvm.IRModule:
    """A module where no fused kernel is too large; the same one if none was.

    Of a kernel that is too large some values are stored, from which others go on: each of them gets
    a kernel of its own.

    Args:
        module: as FuseOps leaves it.
        grown: what calls become where code is made of them.
    """
    fused = {variable: f for variable, f in module.functions_items() if _is_fused(f)}
    stored = {variable: _stored(module, f, grown) for variable, f in fused.items()}
    builder = relax.BlockBuilder(module)
    made = {
        variable: list(_parts(builder, variable, fused[variable], values))
        for variable, values in stored.items()
        if values
    }
    if not made:
        return module
    module = builder.finalize()
    for variable, function in module.functions_items():
        if isinstance(function, relax.Function) and not _is_fused(function):
            module = _calling(module, variable.name_hint, made)
    for pass_ in (X.CanonicalizeBindings(), X.DeadCodeElimination()):
        module = pass_(module)
    return module


def _is_fused(function: ir.BaseFunc) -> bool:
    return isinstance(function, relax.Function) and _PRIMITIVE in (function.attrs or {})


def _results(function: relax.Function) -> list[relax.Var]:
    """The results of a fused kernel, as variables that are bound to calls."""
    values = {binding.var: binding.value for binding in bindings_of(function)}
    result = values.get(function.body.body, function.body.body)
    return list(result.fields) if isinstance(result, relax.Tuple) else [function.body.body]


def _operators(function: relax.Function) -> dict[relax.Var, relax.Expr]:
    """The calls of a fused kernel, by the variables that hold their results."""
    return {b.var: b.value for b in bindings_of(function) if not isinstance(b.value, relax.Tuple)}


def _stored(module: tvm.IRModule, function: relax.Function, grown: Grown) -> set[relax.Var]:
    """Values of a fused kernel that have to be stored for it to be small enough."""
    stored: set[relax.Var] = set()
    sizes: dict[relax.Expr, int] = {}
    for variable, value in _operators(function).items():
        read = list(relax.analysis.free_vars(value))
        largest, sizes[variable] = _sizes(module, value, sizes, grown)
        while largest > LARGEST and any(sizes.get(each, 1) > 1 for each in read):
            most = max(read, key=lambda each: sizes.get(each, 1))
            stored.add(most)
            sizes[most] = 1
            largest, sizes[variable] = _sizes(module, value, sizes, grown)
    return stored


def _sizes(
    module: tvm.IRModule, value: relax.Expr, sizes: Mapping[relax.Expr, int], grown: Grown
) -> tuple[int, int]:
    """The largest expression of an operator, and the size of its result for who reads it."""
    if not is_call(value, "relax.call_tir"):
        size = max((sizes.get(each, 1) for each in relax.analysis.free_vars(value)), default=1)
        return size, size
    kernel, operands = value.args[:2]
    read = [sizes.get(each, 1) for each in operands.fields]
    largest, results = kernel_sizes(module[kernel], read, grown)
    return largest, max(results, default=1)


def _parts(
    builder: relax.BlockBuilder,
    variable: ir.GlobalVar,
    function: relax.Function,
    stored: set[relax.Var],
) -> Iterator[_Part]:
    """Adds a function for each value that is stored or returned."""
    operators = _operators(function)
    fields = {v: each for v, each in operators.items() if isinstance(each, relax.TupleGetItem)}
    # No kernel takes a tuple, so all tuples are taken apart outside.
    tuples = {v for v in operators if isinstance(v.ty, relax.TupleType)}
    makes = (stored | set(_results(function)) | tuples) - fields.keys()
    needed = _needed(operators, makes, fields.keys())
    for number, made in enumerate(each for each in operators if each in needed):
        own = [each for each in operators if each in needed[made]]
        read = [relax.analysis.free_vars(operators[each]) for each in own]
        reads = [each for each in dict.fromkeys(chain(*read)) if each not in needed[made]]
        instead = {each: relax.Var(each.name, each.ty) for each in reads}
        arguments = [instead[each] for each in reads]
        name = f"{variable.name_hint}_part{number}"
        with builder.function(name, arguments, {_PRIMITIVE: True}):
            with builder.dataflow():
                for each in own[:-1]:
                    instead[each] = builder.emit(replaced(operators[each], instead), each.name)
                result = builder.emit_output(replaced(operators[made], instead), made.name)
            kernel = builder.emit_func_output(result)
        taken = {v: int(each.index) for v, each in fields.items() if each.tuple_value.same_as(made)}
        yield _Part(kernel, reads, made, taken)


def _needed(
    operators: Mapping[relax.Var, relax.Expr],
    makes: Collection[relax.Var],
    given: Collection[relax.Var],
) -> dict[relax.Var, set[relax.Var]]:
    """Values that are stored, each with what is computed for it from others that are.

    Args:
        operators: by the variables that hold their results.
        makes: values that are stored in any case; what two of them need is stored, too.
        given: fields of tuples that are stored.
    """
    known = set(makes)
    while True:
        needed = {each: _closure(each, operators, known.union(given)) for each in known}
        twice = {each for each, n in Counter(chain(*needed.values())).items() if n > 1}
        if not twice:
            return needed
        known |= twice


def _closure(
    made: relax.Var, operators: Mapping[relax.Var, relax.Expr], known: set[relax.Var]
) -> set[relax.Var]:
    """The calls that a value depends on, its own among them."""
    found, left = {made}, [made]
    while left:
        read = set(relax.analysis.free_vars(operators[left.pop()]))
        new = {each for each in read if each in operators} - known - found
        found |= new
        left += new
    return found


def _calling(
    module: tvm.IRModule, name: str, made: Mapping[ir.GlobalVar, Sequence[_Part]]
) -> tvm.IRModule:
    """The module where a function calls the parts in place of the kernels that they are of."""
    with rebuilding(module, name) as builder:
        for binding in bindings_of(module[name]):
            called = getattr(binding.value, "op", None)
            value = binding.value
            if called in made:
                value = _called(builder, value, module[called], made[called])
            bind(builder, binding.var, value)
    return builder.finalize()


def _called(
    builder: relax.BlockBuilder, call: relax.Call, function: relax.Function, parts: Sequence[_Part]
) -> relax.Expr:
    """Calls the parts; returns the value of what they are parts of."""
    held: dict[relax.Var, relax.Expr] = dict(zip(function.params, call.args, strict=True))
    for part in parts:
        call = relax.Call(part.kernel, [held[each] for each in part.reads])
        made = held[part.makes] = builder.emit(call)
        for field, at in part.fields.items():
            held[field] = builder.emit(relax.TupleGetItem(made, at))
    results = [held[each] for each in _results(function)]
    return relax.Tuple(results) if len(results) > 1 else results[0]
