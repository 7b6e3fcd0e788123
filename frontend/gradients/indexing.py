"""Gradients of reading and writing by index; indices have none."""

from tvm import relax
from tvm.relax import op as R  # noqa: N812
from tvm.relax.op.grad import no_grad, take_backward

from odtc.frontend.gradients.rule import Rule


def take(
    _: relax.Var, call: relax.Call, grad: relax.Expr, __: relax.BlockBuilder
) -> list[relax.Expr]:
    """Adjoints of what was read are added up where it was read from."""
    data, indices = call.args
    return [take_backward(grad, data, indices, call.attrs.axis), no_grad(indices)]


def scatter_nd(
    _: relax.Var, call: relax.Call, grad: relax.Expr, builder: relax.BlockBuilder
) -> list[relax.Expr]:
    """Updates get the adjoints of the rows that they went to; overwritten data gets none there."""
    _data, indices, updates = call.args
    rows = builder.emit(R.reshape(indices, (int(indices.ty.shape[0]),)))
    taken = R.take(grad, rows, axis=0, mode="wrap")
    if str(call.attrs.reduction) == "add":
        return [grad, no_grad(indices), taken]
    zeros = builder.emit(R.zeros(updates.ty.shape, updates.ty.dtype))
    kept = R.scatter_nd(grad, indices, zeros, "update")
    return [kept, no_grad(indices), taken]


RULES: dict[str, Rule] = {
    "relax.scatter_nd": scatter_nd,
    "relax.take": take,
}
