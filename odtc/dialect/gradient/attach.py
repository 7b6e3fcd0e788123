"""Lets a part of a tensor be differentiated in place of the whole."""

from dataclasses import dataclass

from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.dialect.operator import RelaxOperator


@dataclass(frozen=True)
class Part:
    """Where a part lies in the whole.

    Attributes:
        axis: along which it is shorter.
        start: where it begins there.
    """

    axis: int
    start: int


def _gradient(
    _: relax.Var, call: relax.Call, grad: relax.Expr, builder: relax.BlockBuilder
) -> list[relax.Expr]:
    """All of the adjoint is the whole's, and its channels of the part are the part's."""
    part = attach.read(call)
    size = int(call.args[1].ty.shape[part.axis])
    return [grad, R.strided_slice(grad, [part.axis], [part.start], [part.start + size])]


# `attach(whole, part)` has the value of `whole`.
attach = RelaxOperator(name="odtc.attach", attributes=Part, gradient=_gradient)
