"""Reductions whose gradient in several steps would be NaN, or keep more than the input."""

import math
from dataclasses import dataclass

from tvm import relax, te, tirx, topi
from tvm.relax import op as R  # noqa: N812

from odtc.dialect.adjoints import kept, number
from odtc.dialect.attributes import Ints, read_as
from odtc.dialect.operator import RelaxOperator


@dataclass(frozen=True)
class Reduction:
    """The attributes of a reduction.

    Attributes:
        axis: axes that are reduced, none of them counted from the end.
        keepdims: whether they stay as axes of size one.
    """

    axis: Ints
    keepdims: bool


def _log_sum_exp(data: te.Tensor, axis: Ints, keepdims: bool) -> te.Tensor:
    """Log of the sum of the exponentials, without overflow: the maximum is taken out."""
    zero, infinity = tirx.const(0, data.dtype), tirx.const(math.inf, data.dtype)
    top = topi.max(data, axis, keepdims=True)
    # Where all is -inf, or something is inf, the difference to it would be NaN.
    finite = te.compute(
        top.shape, lambda *i: tirx.Select(tirx.abs(top(*i)) < infinity, top(*i), zero), "finite"
    )
    summed = topi.sum(topi.exp(topi.subtract(data, finite)), axis, keepdims=True)
    result = topi.add(topi.log(summed), finite)
    return result if keepdims else topi.squeeze(result, axis)


def _log_sum_exp_gradient(
    result: relax.Var, call: relax.Call, grad: relax.Expr, builder: relax.BlockBuilder
) -> list[relax.Expr]:
    """The softmax, from the input and the result; zero where all is -inf, where PyTorch has NaN."""
    data, zero = call.args[0], number(0, call.args[0])
    level = builder.emit(kept(call, result))
    share = R.exp(R.subtract(data, level))
    absent = R.less_equal(level, number(-math.inf, data))
    return [R.multiply(kept(call, grad), R.where(absent, zero, share))]


def _norm(data: te.Tensor, axis: Ints, keepdims: bool) -> te.Tensor:
    """The Euclidean norm."""
    return topi.sqrt(topi.sum(topi.multiply(data, data), axis, keepdims=keepdims))


def _norm_gradient(
    result: relax.Var, call: relax.Call, grad: relax.Expr, builder: relax.BlockBuilder
) -> list[relax.Expr]:
    """The direction; zero where the norm is zero, as in PyTorch."""
    data, zero = call.args[0], number(0, call.args[0])
    length = builder.emit(kept(call, result))
    scale = R.where(R.equal(length, zero), zero, R.divide(kept(call, grad), length))
    return [R.multiply(data, builder.emit(scale))]


def _reduced(call: relax.Call) -> relax.Type:
    data, reduction = call.args[0].ty, read_as(Reduction, call)
    sizes = [1 if axis in reduction.axis else size for axis, size in enumerate(data.shape)]
    if not reduction.keepdims:
        sizes = [size for axis, size in enumerate(sizes) if axis not in reduction.axis]
    return relax.TensorType(sizes, data.dtype)


log_sum_exp = RelaxOperator(
    name="odtc.log_sum_exp",
    attributes=Reduction,
    infer=_reduced,
    kernel=_log_sum_exp,
    gradient=_log_sum_exp_gradient,
)
norm = RelaxOperator(
    name="odtc.norm",
    attributes=Reduction,
    infer=_reduced,
    kernel=_norm,
    gradient=_norm_gradient,
)
