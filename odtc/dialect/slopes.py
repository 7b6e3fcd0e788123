"""Gradients of functions of one element: the adjoint times a slope, in one kernel.

A rule reads either the input or the result of the forward pass, and nothing else is kept for it.
Where one can choose, it is the result: the next operator mostly keeps that anyway.
"""

from collections.abc import Callable

from tvm import relax, te, tirx
from tvm.ir import Expr

from odtc.dialect.lowered import require_lowered
from odtc.dialect.rule import Rule

# From an element, and what the operator's attributes give, to the slope there.
Slope = Callable[..., Expr]


def elementwise(value: Slope, *tensors: te.Tensor, name: str) -> te.Tensor:
    """`value` of the elements of tensors of one shape, in the dtype of the first."""
    first = tensors[0]

    def element(*index: Expr) -> Expr:
        # A number of Python makes float32 of float16.
        found = require_lowered(value(*(tensor(*index) for tensor in tensors)))
        return found.astype(first.dtype) if str(first.dtype).startswith("float") else found

    return te.compute(first.shape, element, name=name)


def scaled_by(
    slope: Slope, grad: relax.Expr, read: relax.Expr, builder: relax.BlockBuilder
) -> list[relax.Expr]:
    """The adjoint times the slope at each element that was read."""

    def kernel(adjoint: te.Tensor, tensor: te.Tensor) -> te.Tensor:
        return elementwise(lambda g, v: g * slope(v), adjoint, tensor, name="slope")

    return [builder.emit_te(kernel, grad, read, primfunc_name_hint="slope")]


def by_input(slope: Slope) -> Rule:
    """Rule of an operator without attributes, whose slope is a function of its input.

    Raises:
        ValueError: no code can be made of the slope on some targets.
    """
    require_lowered(slope(tirx.Var("x", "float32")))
    return lambda _, call, grad, builder: scaled_by(slope, grad, call.args[0], builder)


def by_result(slope: Slope) -> Rule:
    """Rule of an operator without attributes, whose slope is a function of its result.

    Raises:
        ValueError: no code can be made of the slope on some targets.
    """
    require_lowered(slope(tirx.Var("y", "float32")))
    return lambda result, _, grad, builder: scaled_by(slope, grad, result, builder)
