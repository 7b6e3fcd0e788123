"""Gives what a step draws the number of that step, from which its numbers follow."""

from tvm import relax

from odtc.core.ir.relax_calls import operator_of
from odtc.dialect.table import OPERATORS

# Operators whose last argument is the step that their numbers follow from; 0 outside of training.
_DRAWING = frozenset(name for name, each in OPERATORS.items() if each.draws)


class DrawAnew:
    """A replay rule that gives every dropout and every random tensor the step.

    Args:
        step: the number of steps before this one, an int32 scalar.
    """

    def __init__(self, step: relax.Var) -> None:
        self._step = step

    def __call__(self, _: relax.BlockBuilder, binding: relax.Binding) -> relax.Expr | None:
        """Returns the call as it is in training, or None where the binding is something else."""
        call = binding.value
        if operator_of(call) not in _DRAWING:
            return None
        return relax.Call(call.op, [*call.args[:-1], self._step], call.attrs)
