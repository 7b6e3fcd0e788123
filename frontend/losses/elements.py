"""Losses of pairs of elements in Relax: each with its derivative in closed form."""

import math
from collections.abc import Callable

import numpy as np
from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.frontend.losses.loss import BATCH_MEAN, MEAN

# From output and label to the loss of each element and its derivative by the output.
Error = Callable[[relax.Expr, relax.Expr], tuple[relax.Expr, relax.Expr]]

# Below this, log(1 + u) loses digits that its series has.
_SERIES_BELOW = 0.05
_SERIES_TERMS = 5


def number(value: float) -> relax.Expr:
    """A float32 constant."""
    return relax.const(np.float32(value))


def total(builder: relax.BlockBuilder, values: relax.Expr) -> relax.Var:
    """The sum of all elements, along the last dimension first: short sums round less."""
    values = builder.emit(values)
    if len(values.ty.shape) > 1:
        values = builder.emit(R.sum(values, [-1]))
    return builder.emit(R.sum(values))


def count_of(output: relax.Expr, reduction: str) -> int:
    """What a reduction divides the sum of the losses of all elements by."""
    shape = [int(size) for size in output.ty.shape]
    return {MEAN: math.prod(shape), BATCH_MEAN: shape[0]}.get(reduction, 1)


def reduced(
    builder: relax.BlockBuilder,
    output: relax.Expr,
    label: relax.Expr | None,
    error: Error,
    reduction: str,
) -> tuple[relax.Expr, relax.Expr]:
    """The loss and its derivative, from those of the elements."""
    value, derivative = error(output, label)
    share = number(1.0 / count_of(output, reduction))
    return R.multiply(total(builder, value), share), R.multiply(derivative, share)


def squared_error(output: relax.Expr, label: relax.Expr) -> tuple[relax.Expr, relax.Expr]:
    """The square of the difference."""
    error = R.subtract(output, label)
    return R.multiply(error, error), R.multiply(error, number(2.0))


def absolute_error(output: relax.Expr, label: relax.Expr) -> tuple[relax.Expr, relax.Expr]:
    """The distance."""
    error = R.subtract(output, label)
    return R.abs(error), R.sign(error)


def huber_error(bound: float, scale: float) -> Error:
    """Half the square up to `bound`, then linear; times `scale` (Huber, 1964)."""

    def error_of(output: relax.Expr, label: relax.Expr) -> tuple[relax.Expr, relax.Expr]:
        error = R.subtract(output, label)
        inner = R.clip(error, relax.prim_value(-bound), relax.prim_value(bound))
        # d * (e - d / 2) with d the error cut at the bound is both branches in one.
        loss = R.multiply(inner, R.subtract(error, R.multiply(inner, number(0.5))))
        return R.multiply(loss, number(scale)), R.multiply(inner, number(scale))

    return error_of


def binary_cross_entropy(pos_weight: tuple[float, ...] | None) -> Error:
    """`(1 - y) x + (1 + (p - 1) y) (log(1 + exp(-|x|)) + max(-x, 0))`, finite for every logit."""
    extra = None if pos_weight is None else relax.const(np.array(pos_weight, np.float32) - 1)

    def error_of(output: relax.Expr, label: relax.Expr) -> tuple[relax.Expr, relax.Expr]:
        negative = R.negative(output)
        softplus = R.add(_log1p(R.exp(R.negative(R.abs(output)))), R.maximum(negative, number(0.0)))
        slope = R.sigmoid(negative)
        if extra is not None:
            factor = R.add(number(1.0), R.multiply(label, extra))
            softplus, slope = R.multiply(factor, softplus), R.multiply(factor, slope)
        rest = R.subtract(number(1.0), label)
        return R.add(R.multiply(rest, output), softplus), R.subtract(rest, slope)

    return error_of


def divergence(output: relax.Expr, label: relax.Expr) -> tuple[relax.Expr, relax.Expr]:
    """`y (log y - x)`, and 0 where the label is 0."""
    present = R.greater(label, number(0.0))
    logarithm = R.log(R.where(present, label, number(1.0)))
    return R.multiply(label, R.subtract(logarithm, output)), R.negative(label)


def log_divergence(output: relax.Expr, label: relax.Expr) -> tuple[relax.Expr, relax.Expr]:
    """`exp(y) (y - x)`."""
    probability = R.exp(label)
    return R.multiply(probability, R.subtract(label, output)), R.negative(probability)


def _log1p(value: relax.Expr) -> relax.Expr:
    """`log(1 + u)` for u of at least 0; Relax has no such operator."""
    series = number(0.0)
    for term in range(_SERIES_TERMS, 0, -1):
        series = R.multiply(value, R.subtract(number(1.0 / term), series))
    direct = R.log(R.add(value, number(1.0)))
    return R.where(R.less(value, number(_SERIES_BELOW)), series, direct)


def mean(builder: relax.BlockBuilder, output: relax.Var) -> tuple[relax.Expr, relax.Expr]:
    """The mean of a tensor, and its derivative."""
    shape = [int(size) for size in output.ty.shape]
    share = number(1.0 / math.prod(shape))
    return R.multiply(total(builder, output), share), R.broadcast_to(share, shape)
