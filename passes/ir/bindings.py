"""The bindings of a function without branches, which passes read and write one by one."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import tvm
from tvm import relax


def bindings_of(function: relax.Function) -> list[relax.Binding]:
    """All bindings of a function, in the order in which they run."""
    # A slice of TVM's array is a list; to iterate over it takes thrice the time.
    return [binding for block in function.body.blocks for binding in block.bindings[:]]


def variables_in(value: relax.Expr) -> list[relax.Var]:
    """The variables that an expression reads, each once."""
    return relax.analysis.free_vars(value)[:]


def readers_of(function: relax.Function) -> Counter[relax.Var]:
    """How many bindings read each variable; the result counts as one."""
    readers = Counter(variables_in(function.body.body))
    for binding in bindings_of(function):
        readers.update(variables_in(binding.value))
    return readers


def reached_from(bindings: Sequence[relax.Binding], sources: Iterable[relax.Var]) -> set[relax.Var]:
    """The sources, and all variables that are computed from any of them."""
    reached = set(sources)
    for binding in bindings:
        if not reached.isdisjoint(variables_in(binding.value)):
            reached.add(binding.var)
    return reached


def with_bindings(function: relax.Function, bindings: Sequence[relax.Binding]) -> relax.Function:
    """The function with other bindings, of which its result is made, in one plain block."""
    return relax.Function(
        function.params,
        relax.SeqExpr([relax.BindingBlock(list(bindings))], function.body.body),
        function.ret_ty,
        function.is_pure,
        function.attrs,
    )


@contextmanager
def rebuilding(module: tvm.IRModule, name: str) -> Iterator[relax.BlockBuilder]:
    """A builder in the dataflow block of a function that takes the place of the one of that name.

    All other functions of the module are there already. The new function has the same arguments and
    returns the same variables, which have to be bound again.
    """
    functions = module.functions_items()
    others = {variable: each for variable, each in functions if variable.name_hint != name}
    builder, function = relax.BlockBuilder(tvm.IRModule(others)), module[name]
    with builder.function(name, function.params, dict(function.attrs or {})):
        with builder.dataflow():
            yield builder
        builder.emit_func_output(function.body.body)


def bind(builder: relax.BlockBuilder, variable: relax.Var, value: relax.Expr) -> None:
    """Binds a value to that very variable, which others read."""
    builder.emit_normalized(relax.VarBinding(variable, builder.normalize(value)))


def replaced(value: relax.Expr, instead: Mapping[relax.Var, relax.Expr]) -> relax.Expr:
    """An expression with other expressions in the places of variables."""
    if isinstance(value, relax.Var):
        return instead.get(value, value)
    if isinstance(value, relax.Tuple):
        return relax.Tuple([replaced(field, instead) for field in value.fields])
    if isinstance(value, relax.TupleGetItem):
        return relax.TupleGetItem(replaced(value.tuple_value, instead), value.index)
    if isinstance(value, relax.Call):
        arguments = [replaced(each, instead) for each in value.args]
        return relax.Call(value.op, arguments, value.attrs, value.ty_args)
    return value
