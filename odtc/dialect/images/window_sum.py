"""Sums over neighbouring channels, as local response normalisation has them.

A product with a band matrix is the same for finite numbers, but multiplies each channel with each:
what is not a number in one would be in all of them, for many more multiplications.
"""

import functools
import operator
from dataclasses import dataclass

from tvm import relax, te, tirx
from tvm.ir import Expr

from odtc.core.ir.kernel_marks import OPAQUE
from odtc.dialect.operator import RelaxOperator


@dataclass(frozen=True)
class Window:
    """The channels that are added up.

    Attributes:
        before: how many in front of a channel.
        after: how many behind it.
    """

    before: int
    after: int


def _kernel(data: te.Tensor, before: int, after: int) -> te.Tensor:
    """Each channel with so many in front of it and after it; axis 1 has the channels."""
    channels = int(data.shape[1])
    zero = tirx.const(0, data.dtype)

    def at(sample: tirx.Var, channel: tirx.Var, *place: tirx.Var) -> Expr:
        terms = []
        for shift in range(-min(before, channels - 1), min(after, channels - 1) + 1):
            other = channel + shift
            value = data(sample, other, *place)
            within = other >= 0 if shift < 0 else other < channels
            terms.append(tirx.if_then_else(within, value, zero) if shift else value)
        return functools.reduce(operator.add, terms)

    return te.compute(data.shape, at, name="window_sum")


def _gradient(
    _: relax.Var, call: relax.Call, grad: relax.Expr, builder: relax.BlockBuilder
) -> list[relax.Expr]:
    """A channel is in the windows of those that it is in the window of, the other way round."""
    window = window_sum.read(call)
    return [window_sum(grad, before=window.after, after=window.before)]


window_sum = RelaxOperator(
    name="odtc.window_sum",
    attributes=Window,
    kernel=_kernel,
    pattern=OPAQUE,
    gradient=_gradient,
)
