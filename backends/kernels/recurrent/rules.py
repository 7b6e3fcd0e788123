"""Recurrent layers over whole sequences: a kernel forward and one backward, whatever their length.

Both walk through time, and compute all samples of a step at once.
"""

from collections.abc import Callable

from tvm import relax

from odtc.backends.kernels.common.operand import call_kernel, stored
from odtc.backends.kernels.product.tile import Machine
from odtc.backends.kernels.recurrent.backward import recurrent_gradient
from odtc.backends.kernels.recurrent.forward import recurrent_kernel
from odtc.backends.kernels.recurrent.parts import RecurrentLayer
from odtc.dialect.sequences.cells import CELLS
from odtc.dialect.sequences.recurrent import Walk, recurrent, recurrent_backward

Rule = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]


def recurrent_rules(machine: Machine) -> dict[str, Rule]:
    """Legalisation rules for `relax.transform.LegalizeOps`, by operator."""
    return {
        recurrent.name: lambda builder, call: _lower_forward(builder, call, machine),
        recurrent_backward.name: lambda builder, call: _lower_backward(builder, call, machine),
    }


def _layer(walk: Walk, call: relax.Call, sequence: relax.Type, operands: int) -> RecurrentLayer:
    """The layer of a call, by the type of its hidden states; one more operand are lengths."""
    steps, batch, hidden = (int(size) for size in sequence.shape)
    ragged = len(call.args) > operands
    return RecurrentLayer(walk.cell, steps, batch, hidden, walk.reverse, ragged)


def _lower_forward(builder: relax.BlockBuilder, call: relax.Call, machine: Machine) -> relax.Expr:
    said = recurrent.read(call)
    cell = CELLS[said.cell]
    layer = _layer(said, call, call.ty.fields[0], 2 + cell.has_bias + cell.states)
    kernel = recurrent_kernel(layer, machine, saves=said.saves)
    return call_kernel(builder, kernel, "recurrent", call, list(call.args))


def _lower_backward(builder: relax.BlockBuilder, call: relax.Call, machine: Machine) -> relax.Expr:
    said = recurrent_backward.read(call)
    cell = CELLS[said.cell]
    layer = _layer(said, call, call.args[0].ty, 4 + cell.states + len(cell.saved))
    first = 3 + cell.states
    last = first + 1 + len(cell.saved)
    kept = [stored(builder, each) for each in call.args[first:last]]
    kernel = recurrent_gradient(layer, [str(each.ty.dtype) for each in kept], machine)
    operands = [*call.args[:first], *kept, *call.args[last:]]
    return call_kernel(builder, kernel, "recurrent_gradient", call, operands)
