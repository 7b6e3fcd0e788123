"""Exponential, logarithm and error function without calls, so that a loop over them is vectorised.

LLVM has no vectors of these: it calls the C library for each element, and a softmax or a GELU waits
for that. Here they are polynomials in single precision, with errors of a few units in the last
place: the exponential and the logarithm of Cephes (Moshier, 1989), and the rational approximations
of the error function and of the hyperbolic tangent that Eigen has. Double precision keeps the
library's.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache

from tvm import tirx
from tvm.ir import Expr, Op, register_op_attr
from tvm.tirx import register_intrin_lowering

from odtc.passes.ir.written_out import Grown, growth_of

# What TVM's vectoriser asks of a function in a loop.
_VECTORISED = "TVectorizable"
# Above the level of TVM's own rules.
_LEVEL = 11

# Beyond these the power of two in e^x is zero, and infinite.
_LOWEST, _HIGHEST = -88.0, 88.8
# log 2 in two parts: the first has so few digits that its products with exponents are exact.
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4
_EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 0.5)
_LOG = (
    *(7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1),
    *(-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1),
)
_ERF_ABOVE = (
    *(-2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05),
    *(-7.34990630326855e-04, -2.95459980854025e-03, -1.60960333262415e-02),
)
_ERF_BELOW = (
    *(-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03),
    *(-7.37332916720468e-03, -1.42647390514189e-02),
)
# Where the function is 1 in float32, and the ratio, too, whether or not sums of it are fused.
_ERF_END, _TANH_END = 4.0, 8.095342636108398
_TANH_ABOVE = (
    *(-2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11, 5.12229709037114e-08),
    *(1.48572235717979e-05, 6.37261928875436e-04, 4.89352455891786e-03),
)
_TANH_BELOW = (
    1.19825839466702e-06,
    1.18534705686654e-04,
    2.26843463243900e-03,
    4.89352518554385e-03,
)
_SMALLEST_NORMAL, _MANTISSA_BITS, _BIAS = 1.17549435e-38, 23, 127
# Floats as the integers of their bits: where the exponent starts, 1 and √½.
_ONE_BIT, _ONE, _ROOT_OF_HALF = 1 << _MANTISSA_BITS, 0x3F800000, 0x3F3504F3


def named(value: Expr, build: Callable[[Expr], Expr]) -> Expr:
    """`build` of a value that is computed once."""
    name = tirx.Var("v", value.ty)
    return tirx.Let(name, value, build(name))


def _typed(x: Expr, dtype: str) -> str:
    """The dtype with as many lanes as `x` has."""
    return "x".join([dtype, *str(x.ty).split("x")[1:]])


def _like(x: Expr, value: float) -> Expr:
    return tirx.const(value, _typed(x, "float32"))


def _horner(x: Expr, coefficients: Sequence[float]) -> Expr:
    value = _like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        value = value * x + coefficient
    return value


def _kept(x: Expr, lowest: float, highest: float, build: Callable[[Expr], Expr]) -> Expr:
    """`build` of a value between bounds, which says all beyond them; NaN stays itself."""

    def chosen(x: Expr) -> Expr:
        value = named(tirx.max(tirx.min(x, highest), lowest), build)
        return tirx.Select(x <= _like(x, math.inf), value, x)

    return named(x, chosen)


def exp(x: Expr) -> Expr:
    """2^n times e to the rest, which is at most log(2) / 2."""

    def scaled(whole: Expr, rest: Expr) -> Expr:
        value = _horner(rest, _EXP) * (rest * rest) + rest + 1.0
        return value * tirx.reinterpret(
            _typed(whole, "float32"),
            (whole.astype(_typed(whole, "int32")) + _BIAS) << _MANTISSA_BITS,
        )

    def inside(near: Expr) -> Expr:
        return named(
            tirx.floor(near * (1 / math.log(2)) + 0.5),
            lambda n: named(near - n * _LN2_HIGH - n * _LN2_LOW, lambda rest: scaled(n, rest)),
        )

    return _kept(x, _LOWEST, _HIGHEST, inside)


def log(x: Expr) -> Expr:
    """The exponent times log 2, and a polynomial of the mantissa between √½ and √2."""

    def polynomial(shift: Expr, exponent: Expr) -> Expr:
        square = shift * shift
        value = _horner(shift, _LOG) * shift * square + exponent * _LN2_LOW - 0.5 * square
        return shift + value + exponent * _LN2_HIGH

    def split(bits: Expr) -> Expr:
        """By integers: TVM cannot name the result of a comparison of vectors."""
        raised = bits + (_ONE - _ROOT_OF_HALF)
        mantissa = (raised & (_ONE_BIT - 1)) + _ROOT_OF_HALF
        exponent = (raised >> _MANTISSA_BITS) - _BIAS
        return named(
            tirx.reinterpret(_typed(bits, "float32"), mantissa) - 1.0,
            lambda s: named(exponent.astype(_typed(bits, "float32")), lambda e: polynomial(s, e)),
        )

    def whole_line(x: Expr) -> Expr:
        infinity = _like(x, math.inf)
        value = named(tirx.reinterpret(_typed(x, "int32"), x), split)
        # Denormal numbers count as zero.
        small = tirx.Select(x < 0.0, x - x + _like(x, math.nan), -infinity)
        # Infinity and NaN are their own logarithms.
        large = tirx.Select(x < infinity, value, x)
        return tirx.Select(x < _SMALLEST_NORMAL, small, large)

    return named(x, whole_line)


def _bounded(x: Expr, end: float, above: Sequence[float], below: Sequence[float]) -> Expr:
    """An odd rational function that is 1 from an end on."""

    def ratio(x: Expr) -> Expr:
        return named(x * x, lambda s: x * _horner(s, above) / _horner(s, below))

    return _kept(x, -end, end, ratio)


def erf(x: Expr) -> Expr:
    """The error function."""
    return _bounded(x, _ERF_END, _ERF_ABOVE, _ERF_BELOW)


def tanh(x: Expr) -> Expr:
    """The hyperbolic tangent: half of what its exponential would take."""
    return _bounded(x, _TANH_END, _TANH_ABOVE, _TANH_BELOW)


def sigmoid(x: Expr) -> Expr:
    """By the exponential."""
    return 1.0 / (1.0 + exp(-x))


def _by_halves(x: Expr, build: Callable[[Expr, Expr], Expr]) -> Expr:
    """Half of e to the magnitude, and half of its inverse: the root of it overflows later."""

    def parts(root: Expr) -> Expr:
        half = root * _like(root, 0.5)
        return build(half * root, _like(root, 0.5) / root / root)

    return named(exp(tirx.abs(x) * _like(x, 0.5)), parts)


def cosh(x: Expr) -> Expr:
    """By the exponential, finite as far as it is."""
    return named(x, lambda x: _by_halves(x, lambda grows, falls: grows + falls))


def sinh(x: Expr) -> Expr:
    """By the exponential; near zero by its series."""

    def series(x: Expr, square: Expr) -> Expr:
        return x + x * square * _horner(square, (1 / 362880, 1 / 5040, 1 / 120, 1 / 6))

    def body(x: Expr) -> Expr:
        size = _by_halves(x, lambda grows, falls: grows - falls)
        signed = named(size, lambda s: tirx.Select(x < 0.0, -s, s))
        near = named(x * x, lambda square: series(x, square))
        return tirx.Select(tirx.abs(x) < 1.0, near, signed)

    return named(x, body)


_FUNCTIONS = {
    "tirx.cosh": cosh,
    "tirx.erf": erf,
    "tirx.exp": exp,
    "tirx.log": log,
    "tirx.sigmoid": sigmoid,
    "tirx.sinh": sinh,
    "tirx.tanh": tanh,
}


@cache
def grown_functions() -> Grown:
    """The expressions that calls of these functions are expanded to."""
    argument = tirx.Var("x", "float32")
    return {name: growth_of(build(argument), argument) for name, build in _FUNCTIONS.items()}


def _rule(function: Callable[[Expr], Expr], otherwise: Callable[[Expr], Expr]) -> Callable:
    """A lowering rule; also of calls on vectors, because it runs after loops became those."""

    def lower(call: Expr) -> Expr:
        single = str(call.ty).split("x")[0] == "float32"
        return function(call.args[0]) if single else otherwise(call)

    return lower


@cache
def register_vector_math() -> None:
    """Tells TVM's code generator for CPUs, once in a process."""
    for name, function in _FUNCTIONS.items():
        operator = Op.get(name)
        otherwise = operator.get_attr("llvm.FLowerIntrinsic")
        if not operator.get_attr(_VECTORISED):
            # TVM would take the loop around it apart, and leave the rest of that scalar, too.
            register_op_attr(name, _VECTORISED, True)
            otherwise = _one_by_one
        register_intrin_lowering(
            name, target="llvm", f=_rule(function, otherwise or (lambda call: call)), level=_LEVEL
        )


def _one_by_one(call: Expr) -> Expr:
    """A call of the C library for each element."""
    lanes = call.ty.dtype.lanes
    if lanes == 1:
        return call
    each = str(call.ty).split("x")[0]
    vector, name = call.args[0], call.op.name.removeprefix("tirx.")
    elements = [tirx.Shuffle([vector], [tirx.const(lane, "int32")]) for lane in range(lanes)]
    parts = [tirx.call_pure_extern(each, name, element) for element in elements]
    return tirx.Shuffle(parts, [tirx.const(lane, "int32") for lane in range(lanes)])
