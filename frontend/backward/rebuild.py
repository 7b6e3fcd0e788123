"""Rebuilds a one-block Relax function under other arguments, with bindings added at its end."""

from collections.abc import Callable, Sequence

import tvm
from tvm import relax

from odtc.core.ir.relax_calls import operator_of

Replay = Callable[[relax.BlockBuilder, relax.Binding], relax.Expr | None]


def builder_with_kernels(module: tvm.IRModule) -> relax.BlockBuilder:
    """A builder of a new module that holds the kernels of another one, under the same names."""
    functions = module.functions_items()
    return relax.BlockBuilder(
        tvm.IRModule({name: f for name, f in functions if not isinstance(f, relax.Function)})
    )


def operators_of(function: relax.Function) -> set[str]:
    """Names of all operators that the function's bindings call."""
    bindings = [binding for block in function.body.blocks for binding in block.bindings]
    return {operator_of(binding.value) for binding in bindings} - {""}


def replay_body(builder: relax.BlockBuilder, function: relax.Function, *rules: Replay) -> None:
    """Emits the bindings of `function`'s dataflow block into the open block of `builder`.

    The variables stay the same objects, so the function's result expression is valid in the new
    one. Where a rule returns an expression, that is bound to the variable in place of the old one.
    """
    (block,) = function.body.blocks
    _replay(builder, block.bindings, rules)


def replayed(module: tvm.IRModule, name: str, rule: Replay) -> tvm.IRModule:
    """The module with a function replayed by a rule, without what nothing reads any more.

    Args:
        module: holds the function, and the kernels that it calls directly.
        name: of the function, which has one block.
        rule: as of `replay_body`.
    """
    function, builder = module[name], builder_with_kernels(module)
    with builder.function(name, function.params):
        with builder.dataflow():
            replay_body(builder, function, rule)
        builder.emit_func_output(function.body.body)
    rewritten = builder.finalize()
    rewritten[name] = relax.analysis.remove_all_unused(rewritten[name])
    return rewritten


def needed_for(
    function: relax.Function, results: Sequence[relax.Var]
) -> tuple[list[relax.Binding], set[relax.Var]]:
    """The bindings of `function` that the results need, in order, and the variables they read."""
    (block,) = function.body.blocks
    needed, kept = set(results), []
    for binding in reversed(block.bindings):
        if binding.var in needed:
            needed.update(relax.analysis.free_vars(binding.value))
            kept.append(binding)
    return kept[::-1], needed


def replay_needed(
    builder: relax.BlockBuilder,
    function: relax.Function,
    results: Sequence[relax.Var],
    *rules: Replay,
) -> None:
    """As `replay_body`, but only the bindings that the results need."""
    _replay(builder, needed_for(function, results)[0], rules)


def _replay(
    builder: relax.BlockBuilder, bindings: Sequence[relax.Binding], rules: Sequence[Replay]
) -> None:
    for binding in bindings:
        replayed = binding
        for rule in rules:
            value = rule(builder, replayed)
            if value is not None:
                replayed = relax.VarBinding(binding.var, builder.normalize(value))
        builder.emit_normalized(replayed)


def results_of(function: relax.Function) -> list[relax.Var]:
    """The results of a function, one variable or a tuple, as variables of its dataflow block."""
    (block,) = function.body.blocks
    values = {binding.var: binding.value for binding in block.bindings}
    fields = tuple_fields(values[function.body.body])
    return list(fields) if isinstance(fields[0], relax.Var) else [function.body.body]


def tuple_fields(expression: relax.Expr) -> Sequence[relax.Expr]:
    """Fields of a literal tuple; any other expression is its own only field."""
    return list(expression.fields) if isinstance(expression, relax.Tuple) else [expression]


def inner_results(function: relax.Function) -> list[list[relax.Expr]]:
    """Fields of the tuples that a function returns, as variables of its dataflow block.

    What leaves a block is bound once more to a variable of the outside; passes treat such results
    with care, and a caller that goes on inside of the block does not want that.
    """
    (block,) = function.body.blocks
    inside = {b.var: b.value for b in block.bindings if isinstance(b.value, relax.Var)}
    return [
        [inside.get(variable, variable) for variable in tuple_fields(part)]
        for part in function.body.body.fields
    ]
