"""Gradients of the softmax and of its logarithm, both from the result."""

from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.dialect.rows.softmax import is_last, of_softmax, softmax_backward
from odtc.dialect.rule import Rule


def softmax(
    result: relax.Var, call: relax.Call, grad: relax.Expr, builder: relax.BlockBuilder
) -> list[relax.Expr]:
    """From the result."""
    return [of_softmax(result, grad, int(call.attrs.axis), builder)]


def log_softmax(
    result: relax.Var, call: relax.Call, grad: relax.Expr, builder: relax.BlockBuilder
) -> list[relax.Expr]:
    """`dx = dy - e^y * sum(dy)`."""
    axis = int(call.attrs.axis)
    if is_last(result, axis):
        return [softmax_backward(grad, result, axis=axis, log=True)]
    total = builder.emit(R.sum(grad, axis, keepdims=True))
    return [R.subtract(grad, R.multiply(total, R.exp(result)))]


RULES: dict[str, Rule] = {
    "relax.nn.log_softmax": log_softmax,
    "relax.nn.softmax": softmax,
}
