"""Gradients of reductions."""

import math

from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.dialect.adjoints import kept, number
from odtc.dialect.rule import Rule


def _axes(call: relax.Call) -> list[int] | None:
    return None if call.attrs["axis"] is None else [int(axis) for axis in call.attrs["axis"]]


def total(
    _: relax.Var, call: relax.Call, grad: relax.Expr, __: relax.BlockBuilder
) -> list[relax.Expr]:
    """Each element of a sum gets its adjoint."""
    return [R.broadcast_to(kept(call, grad), call.args[0].ty.shape)]


def mean(
    _: relax.Var, call: relax.Call, grad: relax.Expr, builder: relax.BlockBuilder
) -> list[relax.Expr]:
    """Each element of a mean gets its share of the adjoint."""
    shape = [int(size) for size in call.args[0].ty.shape]
    axes = _axes(call)
    count = math.prod(shape if axes is None else (shape[axis] for axis in axes))
    share = builder.emit(R.multiply(grad, number(1.0 / count, grad)))
    return [R.broadcast_to(kept(call, share), call.args[0].ty.shape)]


def extremum(
    result: relax.Var, call: relax.Call, grad: relax.Expr, builder: relax.BlockBuilder
) -> list[relax.Expr]:
    """The elements that are the extremum share its adjoint evenly, as in PyTorch's `amax`.

    Which ones they are is compared again: no mask is kept. Where the extremum is not a number, no
    element is it, and the gradient of each is none either, as in PyTorch.
    """
    data = call.args[0]
    reached = builder.emit(R.equal(data, builder.emit(kept(call, result))))
    reached = builder.emit(R.astype(reached, str(data.ty.dtype)))
    ties = R.sum(reached, _axes(call), keepdims=True)
    share = builder.emit(R.divide(kept(call, grad), ties))
    return [R.multiply(reached, share)]


def product(
    _: relax.Var, call: relax.Call, grad: relax.Expr, builder: relax.BlockBuilder
) -> list[relax.Expr]:
    """Each element gets the product of the others, also where some are zero.

    With one zero, only that one gets a gradient: the product of the rest; with more, none does.
    """
    data, zero, one = call.args[0], number(0, call.args[0]), number(1, call.args[0])
    empty = builder.emit(R.equal(data, zero))
    others = builder.emit(R.where(empty, one, data))
    rest = builder.emit(R.prod(others, _axes(call), keepdims=True))
    zeros = R.sum(R.astype(empty, str(data.ty.dtype)), _axes(call), keepdims=True)
    # How many zeros there may be for an element to have a slope: those that are itself.
    own = R.astype(empty, str(data.ty.dtype))
    slope = R.where(R.equal(zeros, own), R.divide(rest, others), zero)
    return [R.multiply(kept(call, grad), slope)]


RULES: dict[str, Rule] = {
    "relax.max": extremum,
    "relax.mean": mean,
    "relax.min": extremum,
    "relax.prod": product,
    "relax.sum": total,
}
