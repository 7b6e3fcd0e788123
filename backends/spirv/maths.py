"""Functions that GLSL lacks, or specifies too loosely, as expressions of others.

Vulkan's drivers may be off by 2^-11 in a sine, by more than a thousand units in the last place in a
tanh near zero, and may do what they like with the power of a negative number or the logarithm of
none. What is here is right within about ten units in the last place, of float32 as of float16; a
power within as many for each binary digit of its logarithm.
"""

import math
from collections.abc import Callable
from functools import cache, partial

from tvm import tirx
from tvm.ir import Expr
from tvm.tirx import register_intrin_lowering

from odtc.backends import vector_math
from odtc.backends.vector_math import named

# Higher than the level of TVM's own rules.
_LEVEL = 11
_SINGLE = "float32"

# A quarter of a turn in three parts, whose products with small numbers are exact but for the last
# (Cephes; Moshier, 1989), and polynomials of sine and cosine within an eighth of a turn of zero.
_QUARTER = (1.5703125, 4.837512969970703e-4, 7.54978995489188e-8)
_SINE = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
_COSINE = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
# Powers that are products.
_MOST_FACTORS = 4

_MAGNITUDE, _INFINITE = 0x7FFFFFFF, 0x7F800000


def _own(name: str, x: Expr) -> Expr:
    """The device's function."""
    return tirx.call_pure_extern(_SINGLE, name, x)


def _number(value: float) -> Expr:
    return tirx.const(value, _SINGLE)


def tanh(x: Expr) -> Expr:
    """By the exponential of a negative number, which cannot overflow; near zero by a series."""

    def body(x: Expr) -> Expr:
        square = x * x
        series = x * (1.0 - square * (1.0 / 3.0) * (1.0 - square * 0.4))
        power = _own("expf", -2.0 * tirx.abs(x))
        ratio = named(power, lambda p: (1.0 - p) / (1.0 + p))
        signed = tirx.Select(x < 0.0, -ratio, ratio)
        return tirx.Select(tirx.abs(x) < 0.02, series, signed)

    return named(x, body)


def log(x: Expr) -> Expr:
    """Logarithm: minus infinity of zero, and NaN of less."""

    def whole_line(x: Expr) -> Expr:
        other = tirx.Select(x < _number(0), _number(math.nan), x)
        other = tirx.Select(tirx.EQ(x, _number(0)), _number(-math.inf), other)
        return tirx.Select(x > _number(0), _own("logf", x), other)

    return named(x, whole_line)


def log1p(x: Expr) -> Expr:
    """Logarithm of 1 + x, near zero by the series of 2 artanh(x / (2 + x)): no cancellation."""

    def series(s: Expr) -> Expr:
        square = s * s
        value = _number(1 / 11)
        for odd in (9, 7, 5, 3, 1):
            value = value * square + 1 / odd
        return 2.0 * s * value

    def whole_line(x: Expr) -> Expr:
        near = named(x / (x + 2.0), series)
        return tirx.Select(_own("fabsf", x) < 0.4, near, log(x + 1.0))

    return named(x, whole_line)


def power(x: Expr, y: Expr) -> Expr:
    """Power `x ** y`; of a negative number too, if the exponent is whole."""
    if isinstance(y, tirx.FloatImm) and y.value in range(1, _MOST_FACTORS + 1):
        return named(x, lambda v: math.prod([v] * (int(y.value) - 1), start=v))

    def signed(x: Expr, y: Expr, size: Expr) -> Expr:
        half = y * _number(0.5)
        is_odd = tirx.NE(_own("floorf", half), half)
        negative = tirx.Select(is_odd, -size, size)
        whole = tirx.Select(tirx.EQ(_own("floorf", y), y), negative, _number(math.nan))
        return tirx.Select(x < _number(0), whole, size)

    def sized(x: Expr, y: Expr) -> Expr:
        magnitude = _own("fabsf", x)
        finite = _own("exp2f", y * _own("log2f", magnitude))
        of_zero = tirx.Select(y > _number(0), _number(0), _number(math.inf))
        size = tirx.Select(tirx.EQ(magnitude, _number(0)), of_zero, finite)
        value = named(size, lambda s: signed(x, y, s))
        return tirx.Select(tirx.EQ(y, _number(0)), _number(1), value)

    return named(x, lambda v: named(y, lambda w: sized(v, w)))


def _wave(x: Expr, quarters: int) -> Expr:
    """The sine, shifted by so many quarter turns; of less than 8192."""

    def parts(turns: Expr, rest: Expr) -> Expr:
        square = rest * rest
        sine = (
            ((_number(_SINE[0]) * square + _SINE[1]) * square) + _SINE[2]
        ) * square * rest + rest
        inner = (_number(_COSINE[0]) * square + _COSINE[1]) * square + _COSINE[2]
        cosine = inner * square * square - square * _number(0.5) + _number(1)
        phase = turns.astype("int32") + quarters
        value = tirx.Select(tirx.EQ(phase & 1, 1), cosine, sine)
        return tirx.Select(tirx.EQ(phase & 2, 2), -value, value)

    def rest_of(x: Expr, turns: Expr) -> Expr:
        for part in _QUARTER:
            x = x - turns * _number(part)
        return x

    def turned(x: Expr) -> Expr:
        turns = _own("floorf", x * _number(2 / math.pi) + _number(0.5))
        return named(turns, lambda n: named(rest_of(x, n), lambda rest: parts(n, rest)))

    return named(x, turned)


def _bits(x: Expr, test: Callable[[Expr, Expr], Expr]) -> Expr:
    """A test of the magnitude as an integer: drivers may assume that no number is infinite."""
    bits = tirx.reinterpret("int32", x)
    return test(bits & tirx.const(_MAGNITUDE, "int32"), tirx.const(_INFINITE, "int32"))


_FUNCTIONS: dict[str, Callable[..., Expr]] = {
    "tirx.exp": partial(_own, "expf"),
    "tirx.erf": vector_math.erf,
    "tirx.tanh": tanh,
    "tirx.sigmoid": lambda x: _number(1) / (_number(1) + _own("expf", -x)),
    "tirx.sin": partial(_wave, quarters=0),
    "tirx.cos": partial(_wave, quarters=1),
    "tirx.tan": lambda x: _wave(x, 0) / _wave(x, 1),
    "tirx.log": log,
    "tirx.log1p": log1p,
    "tirx.pow": power,
    "tirx.isnan": lambda x: _bits(x, lambda a, b: a > b),
    "tirx.isinf": lambda x: _bits(x, tirx.EQ),
    "tirx.isfinite": lambda x: _bits(x, lambda a, b: a < b),
}


def _rule(function: Callable[..., Expr]) -> Callable[[Expr], Expr]:
    """A lowering rule of float32 and of what is as exact as float32 can say."""

    def lower(call: Expr) -> Expr:
        given = str(call.args[0].ty.dtype)
        if given not in (_SINGLE, "float16"):
            return call
        value = function(*(each.astype(_SINGLE) for each in call.args))
        return value.astype(str(call.ty.dtype))

    return lower


@cache
def register_maths() -> None:
    """Registers the lowering rules for Vulkan, once in a process."""
    for name, function in _FUNCTIONS.items():
        register_intrin_lowering(name, target="vulkan", f=_rule(function), level=_LEVEL)
