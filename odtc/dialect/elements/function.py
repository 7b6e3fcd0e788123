"""Functions of one element, as operators: a value, and a slope.

The slope is computed again from the input, or from the result where that says enough. The next
operator mostly keeps the result, so then the activation itself keeps nothing.
"""

import inspect
from collections.abc import Callable
from dataclasses import make_dataclass
from typing import Any

from tvm import relax, te
from tvm.ir import Expr

from odtc.dialect.channels_last import ChannelsLast
from odtc.dialect.operator import PREFIX, RelaxOperator
from odtc.dialect.slopes import elementwise, scaled_by

# From an element, and the operator's attributes by name, to a number.
Function = Callable[..., Expr]


def function(
    name: str,
    value: Function,
    slope: Function,
    *,
    reads_result: bool = False,
    channels_last: ChannelsLast | None = None,
) -> RelaxOperator[Any]:
    """An operator by its value at an element, and its slope there.

    Args:
        name: of the operator.
        value: its parameters but the first one are the attributes.
        slope: of the input, with the same attributes.
        reads_result: whether the slope is one of the result in place of the input.
        channels_last: as of `RelaxOperator`.
    """

    def kernel(tensor: te.Tensor, **attrs: Any) -> te.Tensor:
        return elementwise(lambda x: value(x, **attrs), tensor, name=name.removeprefix(PREFIX))

    def gradient(
        result: relax.Var, call: relax.Call, grad: relax.Expr, builder: relax.BlockBuilder
    ) -> list[relax.Expr]:
        attrs = vars(made.read(call))
        read = result if reads_result else call.args[0]
        return scaled_by(lambda v: slope(v, **attrs), grad, read, builder)

    _, *names = inspect.signature(value).parameters
    made = RelaxOperator(
        name=name,
        attributes=make_dataclass("Attributes", [(each, Any) for each in names], frozen=True),
        kernel=kernel,
        gradient=gradient,
        channels_last=channels_last,
        maps=True,
    )
    return made
