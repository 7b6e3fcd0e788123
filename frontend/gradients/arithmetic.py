"""Gradients of arithmetic on two tensors that broadcast."""

from collections.abc import Callable

from tvm import relax
from tvm.relax import op as R  # noqa: N812
from tvm.relax.op.grad import no_grad

from odtc.dialect.adjoints import fitted, number
from odtc.dialect.rule import Rule


def _extremum(trails: Callable[[relax.Expr, relax.Expr], relax.Expr]) -> Rule:
    """Maximum or minimum: the adjoint goes to the leading operand; a tie gets half each.

    That is PyTorch's rule for two tensors; TVM's gives all of a tie to the first. Where one is not
    a number neither leads, and both get the adjoint, as there.
    """

    def rule(
        _: relax.Var, call: relax.Call, grad: relax.Expr, builder: relax.BlockBuilder
    ) -> list[relax.Expr]:
        left, right = call.args
        zero, half = number(0, left), number(0.5, left)
        share = R.where(R.equal(left, right), R.multiply(grad, half), grad)
        return [
            fitted(builder, R.where(trails(left, right), zero, share), left),
            fitted(builder, R.where(trails(right, left), zero, share), right),
        ]

    return rule


def power(
    result: relax.Var, call: relax.Call, grad: relax.Expr, builder: relax.BlockBuilder
) -> list[relax.Expr]:
    """The adjoint of `x^e`: `g * e * x^(e-1)` and `g * x^e * log(x)`.

    Both are zero where the formula has no value though the function is flat there: the first for
    `e = 0`, the second for `x = 0` and `e >= 0`, as in PyTorch.
    """
    base, exponent = call.args
    zero, one = number(0, base), number(1, base)
    slope = R.multiply(exponent, R.power(base, R.subtract(exponent, one)))
    base_grad = R.where(R.equal(exponent, zero), zero, R.multiply(grad, slope))
    flat = R.logical_and(R.equal(base, zero), R.greater_equal(exponent, zero))
    growth = R.where(flat, zero, R.multiply(result, R.log(base)))
    return [
        fitted(builder, base_grad, base),
        fitted(builder, R.multiply(grad, growth), exponent),
    ]


def where(
    _: relax.Var, call: relax.Call, grad: relax.Expr, builder: relax.BlockBuilder
) -> list[relax.Expr]:
    """The adjoint where an operand was chosen, and zero elsewhere; TVM's does not broadcast.

    It is chosen, not multiplied: what is infinite or NaN on the other side leaves no trace.
    """
    condition, chosen, other = call.args
    zero = number(0, chosen)
    return [
        no_grad(condition),
        fitted(builder, R.where(condition, grad, zero), chosen),
        fitted(builder, R.where(condition, zero, grad), other),
    ]


RULES: dict[str, Rule] = {
    "relax.maximum": _extremum(R.less),
    "relax.minimum": _extremum(R.greater),
    "relax.power": power,
    "relax.where": where,
}
