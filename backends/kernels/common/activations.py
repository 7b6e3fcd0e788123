"""Activations that a kernel can apply to a value before it stores it."""

from collections.abc import Callable

from tvm import ir, tirx

from odtc.dialect.elements.pointwise import relu6


def activated(name: str, value: ir.Expr, number: Callable[[float], ir.Expr]) -> ir.Expr:
    """A value after an activation.

    Args:
        name: of an operator of `ACTIVATIONS`, or nothing.
        value: a number or a vector; not a number stays one.
        number: makes a constant of the value's type.
    """
    zero, six = number(0.0), number(6.0)
    positive = tirx.Select(value < zero, zero, value)
    values = {
        "": value,
        "relax.nn.relu": tirx.max(value, zero),
        relu6.name: tirx.Select(positive > six, six, positive),
    }
    return values[name]
