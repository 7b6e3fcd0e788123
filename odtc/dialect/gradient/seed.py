"""Where the backward pass starts: at a derivative that a loss brings along."""

from tvm import relax
from tvm.relax import op as R  # noqa: N812
from tvm.relax.op.grad import no_grad

from odtc.core.ir.relax_calls import operator_of
from odtc.dialect.attributes import NoAttributes
from odtc.dialect.operator import RelaxOperator


def _gradient(
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


# `seed(output, derivative)` has the value of the sum of their products.
seed = RelaxOperator(
    name="odtc.seed",
    attributes=NoAttributes,
    infer=lambda _: relax.TensorType((), "float32"),
    gradient=_gradient,
)
