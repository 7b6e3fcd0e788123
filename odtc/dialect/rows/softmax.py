"""Softmax in which a row that is masked as a whole is zero, and the gradient of any softmax."""

import math
from dataclasses import dataclass

from tvm import relax, te, tirx, topi
from tvm.relax import op as R  # noqa: N812

from odtc.dialect.operator import RelaxOperator


@dataclass(frozen=True)
class Axis:
    """Of what a softmax is.

    Attributes:
        axis: along which the sum is one.
    """

    axis: int


@dataclass(frozen=True)
class Result(Axis):
    """The same.

    Attributes:
        log: whether the result is the logarithm.
    """

    log: bool


def _kernel(data: te.Tensor, axis: int) -> te.Tensor:
    """The softmax along an axis, and zero where that is NaN."""
    normal, zero = topi.nn.softmax(data, axis), tirx.const(0, data.dtype)
    return te.compute(
        data.shape,
        lambda *i: tirx.Select(tirx.isnan(normal(*i)), zero, normal(*i)),
        name="safe_softmax",
    )


def _gradient(
    result: relax.Var, call: relax.Call, grad: relax.Expr, builder: relax.BlockBuilder
) -> list[relax.Expr]:
    """That of the softmax, from its result: where it is zero, nothing flows back."""
    return [of_softmax(result, grad, safe_softmax.read(call).axis, builder)]


def of_softmax(
    result: relax.Expr, grad: relax.Expr, axis: int, builder: relax.BlockBuilder
) -> relax.Expr:
    """`dx = y * (dy - sum(dy * y))`: where the result is zero, nothing flows back."""
    if is_last(result, axis):
        return softmax_backward(grad, result, axis=axis, log=False)
    total = R.sum(R.multiply(grad, result), axis, keepdims=True)
    return R.multiply(R.subtract(grad, builder.emit(total)), result)


def is_last(tensor: relax.Expr, axis: int) -> bool:
    """Whether the elements along the axis of a float32 tensor lie side by side."""
    shape = [int(size) for size in tensor.ty.shape]
    return tensor.ty.dtype == "float32" and math.prod(shape[axis % len(shape) + 1 :]) == 1


safe_softmax = RelaxOperator(
    name="odtc.safe_softmax", attributes=Axis, kernel=_kernel, gradient=_gradient
)
# Of the adjoint and the result, over the last dimension.
softmax_backward = RelaxOperator(name="odtc.softmax_backward", attributes=Result, gradient=None)
