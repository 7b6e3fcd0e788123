"""Rebuilds a one-block Relax function under other arguments, with bindings added at its end."""

from collections.abc import Callable, Sequence

from tvm import relax

Replay = Callable[[relax.BlockBuilder, relax.Binding], relax.Expr | None]


def replay_body(builder: relax.BlockBuilder, function: relax.Function, *rules: Replay) -> None:
    """Emits the bindings of `function`'s dataflow block into the open block of `builder`.

    The variables stay the same objects, so the function's result expression is valid in the new
    one. Where a rule returns an expression, that is bound to the variable in place of the old one.
    """
    (block,) = function.body.blocks
    for binding in block.bindings:
        replayed = binding
        for rule in rules:
            value = rule(builder, replayed)
            if value is not None:
                replayed = relax.VarBinding(binding.var, builder.normalize(value))
        builder.emit_normalized(replayed)


def tuple_fields(expression: relax.Expr) -> Sequence[relax.Expr]:
    """Fields of a literal tuple; any other expression is its own only field."""
    return list(expression.fields) if isinstance(expression, relax.Tuple) else [expression]
