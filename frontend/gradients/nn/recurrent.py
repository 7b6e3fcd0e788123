"""The gradient of recurrent layers.

One kernel walks back through the steps. The weights' adjoints are products over all of them.
"""

from collections.abc import Callable

from tvm import relax
from tvm.relax import op as R  # noqa: N812
from tvm.relax.op.grad import no_grad

from odtc.core.ir.kernel_marks import RECURRENT
from odtc.core.ir.recurrent_cells import CELLS
from odtc.dialect.rule import Rule
from odtc.frontend.relax_ops.recurrent import recurrent_backward


def recurrent(
    result: relax.Var, call: relax.Call, grad: relax.Expr, builder: relax.BlockBuilder
) -> list[relax.Expr]:
    """From what the forward pass has saved; lengths have no gradient."""
    name = str(call.attrs["cell"])
    cell = CELLS[name]
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
            cell=name,
            reverse=bool(call.attrs["reverse"]),
        )
    )
    fields = [_field(builder, found, slot) for slot in range(len(found.ty.fields))]
    dx, old, *extra = fields[: -cell.states]
    dweights, dbias = _WEIGHTS[name](builder, dx, old, *extra)
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

RULES: dict[str, Rule] = {RECURRENT: recurrent}
