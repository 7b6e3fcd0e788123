"""Gradients of the softmax and of its logarithm, both from the result."""

import math

from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.dialect.rule import Rule
from odtc.frontend.relax_ops.softmax import softmax_backward


def of_softmax(
    result: relax.Expr, grad: relax.Expr, axis: int, builder: relax.BlockBuilder
) -> relax.Expr:
    """`dx = y * (dy - sum(dy * y))`: where the result is zero, nothing flows back."""
    if _is_last(result, axis):
        return softmax_backward(grad, result, axis=axis, log=False)
    total = R.sum(R.multiply(grad, result), axis, keepdims=True)
    return R.multiply(R.subtract(grad, builder.emit(total)), result)


def softmax(
    result: relax.Var, call: relax.Call, grad: relax.Expr, builder: relax.BlockBuilder
) -> list[relax.Expr]:
    """As above."""
    return [of_softmax(result, grad, int(call.attrs.axis), builder)]


def log_softmax(
    result: relax.Var, call: relax.Call, grad: relax.Expr, builder: relax.BlockBuilder
) -> list[relax.Expr]:
    """`dx = dy - e^y * sum(dy)`."""
    axis = int(call.attrs.axis)
    if _is_last(result, axis):
        return [softmax_backward(grad, result, axis=axis, log=True)]
    total = builder.emit(R.sum(grad, axis, keepdims=True))
    return [R.subtract(grad, R.multiply(total, R.exp(result)))]


def _is_last(tensor: relax.Expr, axis: int) -> bool:
    """Whether the elements along the axis of a float32 tensor lie side by side."""
    shape = [int(size) for size in tensor.ty.shape]
    return tensor.ty.dtype == "float32" and math.prod(shape[axis % len(shape) + 1 :]) == 1


RULES: dict[str, Rule] = {
    "relax.nn.log_softmax": log_softmax,
    "relax.nn.softmax": softmax,
}
