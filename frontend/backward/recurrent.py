"""Recurrent layers in training keep what the backward pass reads; evaluated, they do not."""

from tvm import relax

from odtc.core.ir.relax_calls import operator_of
from odtc.dialect.sequences.recurrent import recurrent


def save_steps(_: relax.BlockBuilder, binding: relax.Binding) -> relax.Expr | None:
    """A replay rule: the call as it is in training, or None where the binding is something else."""
    call = binding.value
    if operator_of(call) != recurrent.name:
        return None
    layer = recurrent.read(call)
    return recurrent(*call.args, cell=layer.cell, reverse=layer.reverse, saves=True)
