"""Gradients of operators that only say how tensors are used."""

from tvm import relax
from tvm.relax import op as R  # noqa: N812
from tvm.relax.op.grad import no_grad

from odtc.core.ir.relax_calls import operator_of
from odtc.dialect.rule import Rule

# `attach(whole, part)` has the value of `whole`. Attributes: the axis, and where the part starts.
ATTACH = "odtc.attach"

# `seed(output, derivative)` has the value of the sum of their products.
SEED = "odtc.seed"


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


def seed(
    _: relax.Var, call: relax.Call, grad: relax.Expr, builder: relax.BlockBuilder
) -> list[relax.Expr]:
    """The derivative is the adjoint of the output: as it is, where nothing scales the sum."""
    _, derivative = call.args
    while isinstance(grad, relax.Var) and (bound := builder.lookup_binding(grad)) is not None:
        if operator_of(bound) == "relax.ones":
            return [derivative, no_grad(derivative)]
        if not isinstance(bound, relax.Var):
            break
        grad = bound
    return [R.multiply(derivative, grad), no_grad(derivative)]


RULES: dict[str, Rule] = {ATTACH: attach, SEED: seed, "relax.grad.no_grad": stop}
