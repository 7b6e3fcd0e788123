"""Dropout, whose mask follows from the step."""

from dataclasses import dataclass

from tvm import relax
from tvm.relax.op.grad import no_grad

from odtc.dialect.operator import RelaxOperator


@dataclass(frozen=True)
class Mask:
    """The attributes of dropout.

    Attributes:
        ratio: the probability to be zero, in [0, 1); all else is divided by the rest.
        stream: number of the node; each has a mask of its own.
        seed: of all masks, below 2**63.
    """

    ratio: float
    stream: int
    seed: int


def _gradient(
    _: relax.Var, call: relax.Call, grad: relax.Expr, __: relax.BlockBuilder
) -> list[relax.Expr]:
    """The adjoint under the same mask, which is computed again: nothing is saved."""
    step = call.args[1]
    return [relax.Call(call.op, [grad, step], call.attrs), no_grad(step)]


# Of the data and the step.
dropout = RelaxOperator(name="odtc.dropout", attributes=Mask, gradient=_gradient, draws=True)
