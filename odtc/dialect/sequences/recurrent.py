"""A recurrent layer over a whole sequence in one direction, and its gradient.

One kernel walks back through the steps. The weights' adjoints are products over all of them.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tvm import relax
from tvm.relax import op as R  # noqa: N812
from tvm.relax.op.grad import no_grad

from odtc.dialect.operator import RelaxOperator
from odtc.dialect.sequences.cells import CELLS


@dataclass(frozen=True)
class Walk:
    """How a layer walks through a sequence.

    Attributes:
        cell: a name of `CELLS`.
        reverse: whether it begins at the last step.
    """

    cell: str
    reverse: bool


@dataclass(frozen=True)
class Forward(Walk):
    """The same.

    Attributes:
        saves: whether the backward pass follows.
    """

    saves: bool


def _forward(call: relax.Call) -> relax.Type:
    """Hidden states of all steps, the last states, and what the backward pass reads, if it does."""
    layer = recurrent.read(call)
    cell = CELLS[layer.cell]
    data, weights = (argument.ty for argument in call.args[:2])
    steps, batch, _ = data.shape
    hidden = weights.shape[1]
    state = relax.TensorType((batch, hidden), "float32")
    widths = cell.saved if layer.saves else ()
    return relax.TupleType(
        [
            _sequence(steps, batch, hidden),
            *[state] * cell.states,
            *(_sequence(steps, batch, hidden, width) for width in widths),
        ]
    )


def _backward(call: relax.Call) -> relax.Type:
    """See `recurrent_backward`."""
    cell = CELLS[recurrent_backward.read(call).cell]
    data, state = (argument.ty for argument in call.args[:2])
    steps, batch, hidden = data.shape
    widths = (cell.gates, 1, *cell.extra)
    sequences = [_sequence(steps, batch, hidden, width) for width in widths]
    return relax.TupleType([*sequences, *[state] * cell.states])


def _sequence(
    steps: relax.Expr, batch: relax.Expr, hidden: relax.Expr, width: int = 1
) -> relax.TensorType:
    return relax.TensorType((steps, batch, int(hidden) * width), "float32")


def _gradient(
    result: relax.Var, call: relax.Call, grad: relax.Expr, builder: relax.BlockBuilder
) -> list[relax.Expr]:
    """From what the forward pass has saved; lengths have no gradient."""
    layer = recurrent.read(call)
    cell = CELLS[layer.cell]
    _, weights, *rest = call.args
    states = rest[cell.has_bias :][: cell.states]
    lengths = rest[cell.has_bias + cell.states :]
    count = 1 + cell.states
    adjoints = [_field(builder, grad, slot) for slot in range(count)]
    y, *saved = (
        _field(builder, result, slot) for slot in (0, *range(count, count + len(cell.saved)))
    )
    found = builder.emit(
        recurrent_backward(
            *(*adjoints, weights, states[0], y, *saved, *lengths),
            cell=layer.cell,
            reverse=layer.reverse,
        )
    )
    fields = [_field(builder, found, slot) for slot in range(len(found.ty.fields))]
    dx, old, *extra = fields[: -cell.states]
    dweights, dbias = _WEIGHTS[layer.cell](builder, dx, old, *extra)
    return [dx, dweights, *dbias, *fields[-cell.states :], *map(no_grad, lengths)]


def _field(builder: relax.BlockBuilder, results: relax.Expr, slot: int) -> relax.Expr:
    if isinstance(results, relax.Tuple):
        return results.fields[slot]
    return builder.emit(relax.TupleGetItem(results, slot))


def _summed(builder: relax.BlockBuilder, left: relax.Expr, right: relax.Expr) -> relax.Var:
    """The sum over steps and samples of `left` times `right`."""
    flat = [builder.emit(R.reshape(each, (-1, int(each.ty.shape[2])))) for each in (left, right)]
    return builder.emit(R.matmul(builder.emit(R.permute_dims(flat[0])), flat[1]))


Adjoints = tuple[relax.Expr, list[relax.Expr]]


def _plain(builder: relax.BlockBuilder, dx: relax.Expr, old: relax.Expr) -> Adjoints:
    """Of weights of a product with the states."""
    return _summed(builder, dx, old), []


def _apart(
    builder: relax.BlockBuilder, _: relax.Expr, old: relax.Expr, seen: relax.Expr
) -> Adjoints:
    """Where the product's adjoint is not that of the projected inputs; and of its bias."""
    return _summed(builder, seen, old), [R.sum(seen, [0, 1])]


def _reset(
    builder: relax.BlockBuilder, dx: relax.Expr, old: relax.Expr, reset: relax.Expr
) -> Adjoints:
    """Where the last gate's product is one with scaled states."""
    hidden = int(old.ty.shape[2])
    parts = [
        _summed(builder, builder.emit(R.strided_slice(dx, [2], [start], [stop])), states)
        for start, stop, states in ((0, 2 * hidden, old), (2 * hidden, 3 * hidden, reset))
    ]
    return R.concat(parts, 0), []


_WEIGHTS: dict[str, Callable[..., Adjoints]] = {
    "gru": _reset,
    "gru-after": _apart,
    "lstm": _plain,
    "relu": _plain,
    "tanh": _plain,
}


# Of the projected inputs `[steps, batch, gates * hidden]`, the recurrent weights `[gates * hidden,
# hidden]`, a bias if the cell has one, the first states, and lengths of the sequences if they have
# some.
recurrent = RelaxOperator(
    name="odtc.recurrent",
    attributes=Forward,
    infer=_forward,
    gradient=_gradient,
    # All of a layer.
    large=range(8),
)
# Of the adjoints of the hidden states and of the last states, the weights, the first hidden state,
# the hidden states, what was saved, and the lengths. Results are the adjoints of the projected
# inputs, the hidden state before each step, what else the cell gives, and the adjoints of the first
# states.
recurrent_backward = RelaxOperator(
    name="odtc.recurrent_backward", attributes=Walk, infer=_backward, gradient=None
)
