"""A recurrent layer over a whole sequence in one direction, and its gradient, as operators."""

from tvm import relax

from odtc.core.ir.kernel_marks import RECURRENT, RECURRENT_BACKWARD
from odtc.core.ir.recurrent_cells import CELLS
from odtc.frontend.relax_ops.declare import declare


def _forward(call: relax.Call) -> relax.Type:
    """Hidden states of all steps, the last states, and what the backward pass reads, if it does."""
    cell = CELLS[str(call.attrs["cell"])]
    data, weights = (argument.ty for argument in call.args[:2])
    steps, batch, _ = data.shape
    hidden = weights.shape[1]
    state = relax.TensorType((batch, hidden), "float32")
    widths = cell.saved if call.attrs["saves"] else ()
    return relax.TupleType(
        [
            _sequence(steps, batch, hidden),
            *[state] * cell.states,
            *(_sequence(steps, batch, hidden, width) for width in widths),
        ]
    )


def _backward(call: relax.Call) -> relax.Type:
    """See `recurrent_backward`."""
    cell = CELLS[str(call.attrs["cell"])]
    data, state = (argument.ty for argument in call.args[:2])
    steps, batch, hidden = data.shape
    widths = (cell.gates, 1, *cell.extra)
    sequences = [_sequence(steps, batch, hidden, width) for width in widths]
    return relax.TupleType([*sequences, *[state] * cell.states])


def _sequence(
    steps: relax.Expr, batch: relax.Expr, hidden: relax.Expr, width: int = 1
) -> relax.TensorType:
    return relax.TensorType((steps, batch, int(hidden) * width), "float32")


# Of the projected inputs `[steps, batch, gates * hidden]`, the recurrent weights `[gates * hidden,
# hidden]`, a bias if the cell has one, the first states, and lengths of the sequences if they have
# some; with the attributes cell, a name of `CELLS`, reverse, and saves, whether the backward pass
# follows.
recurrent = declare(RECURRENT, _forward)
# Of the adjoints of the hidden states and of the last states, the weights, the first hidden state,
# the hidden states, what was saved, and the lengths; with the attributes cell and reverse. Results
# are the adjoints of the projected inputs, the hidden state before each step, what else the cell
# gives, and the adjoints of the first states.
recurrent_backward = declare(RECURRENT_BACKWARD, _backward)
