"""Gradients of elementary functions of one element."""

import math

from tvm import tirx
from tvm.ir import Expr

from odtc.dialect.rule import Rule
from odtc.dialect.slopes import by_input, by_result
from odtc.frontend.gradients.structural import stop


def _sign(x: Expr) -> Expr:
    """-1, 0 or 1: at zero it is zero, as in PyTorch, where TVM's rule for Abs has 1."""
    one, zero = tirx.const(1, x.ty.dtype), tirx.const(0, x.ty.dtype)
    return tirx.Select(x > zero, one, tirx.Select(x < zero, -one, zero))


RULES: dict[str, Rule] = {
    "relax.abs": by_input(_sign),
    "relax.acos": by_input(lambda x: -1.0 / tirx.sqrt(1.0 - x * x)),
    "relax.acosh": by_input(lambda x: 1.0 / tirx.sqrt(x * x - 1.0)),
    "relax.asin": by_input(lambda x: 1.0 / tirx.sqrt(1.0 - x * x)),
    "relax.asinh": by_input(lambda x: 1.0 / tirx.sqrt(x * x + 1.0)),
    "relax.atan": by_input(lambda x: 1.0 / (1.0 + x * x)),
    "relax.atanh": by_input(lambda x: 1.0 / (1.0 - x * x)),
    "relax.erf": by_input(lambda x: 2.0 / math.sqrt(math.pi) * tirx.exp(-(x * x))),
    "relax.rsqrt": by_result(lambda y: -0.5 * y * y * y),
    "relax.square": by_input(lambda x: 2.0 * x),
    "relax.tan": by_result(lambda y: 1.0 + y * y),
    # Steps: their slope is zero wherever they have one.
    "relax.ceil": stop,
    "relax.floor": stop,
    "relax.round": stop,
    "relax.sign": stop,
}
