"""Gradients of operators that only say how tensors are used."""

from tvm import relax
from tvm.relax import op as R  # noqa: N812
from tvm.relax.op.grad import no_grad

from odtc.frontend.gradients.rule import Rule

# `attach(whole, part)` has the value of `whole`. Attributes: the axis, and where the part starts.
ATTACH = "odtc.attach"


def stop(
    _: relax.Var, call: relax.Call, __: relax.Expr, ___: relax.BlockBuilder
) -> list[relax.Expr]:
    """Nothing flows back through a mark that says so."""
    return [no_grad(call.args[0])]


def attach(
    _: relax.Var, call: relax.Call, grad: relax.Expr, builder: relax.BlockBuilder
) -> list[relax.Expr]:
    """All of the adjoint is the whole's, and its channels of the part are the part's."""
    axis, start = int(call.attrs["axis"]), int(call.attrs["start"])
    size = int(call.args[1].ty.shape[axis])
    return [grad, R.strided_slice(grad, [axis], [start], [start + size])]


RULES: dict[str, Rule] = {ATTACH: attach, "relax.grad.no_grad": stop}
