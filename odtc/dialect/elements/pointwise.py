"""Functions of one element: rectifiers, pieces of straight lines, smooth ones, powers."""

import math

from tvm import relax, tirx
from tvm.ir import Expr

from odtc.dialect.channels_last import ChannelsLast, is_of_images
from odtc.dialect.elements.function import function


def _choose(x: Expr, condition: Expr, chosen: Expr | float, other: Expr | float) -> Expr:
    """One of two values of the type of `x`.

    Both are computed, so that a vector can be, where a branch could not.
    """
    chosen, other = (
        v if isinstance(v, Expr) else tirx.const(v, x.ty.dtype) for v in (chosen, other)
    )
    return tirx.Select(condition, chosen, other)


def _sigmoid(x: Expr) -> Expr:
    return 1.0 / (1.0 + tirx.exp(-x))


# --- rectifiers: at zero they have the slope of the negative side, as in PyTorch -----------------

# Comparisons stand so that what is not a number, of which none holds, is let through.

# These tell the sides apart by the result's sign: alpha must not be negative.

leaky_relu = function(
    "odtc.leaky_relu",
    lambda x, alpha: _choose(x, x > 0.0, x, x * alpha),
    lambda y, alpha: _choose(y, y > 0.0, 1.0, alpha),
    reads_result=True,
)
thresholded_relu = function(
    "odtc.thresholded_relu",
    lambda x, alpha: _choose(x, x <= alpha, 0.0, x),
    lambda x, alpha: _choose(x, x <= alpha, 0.0, 1.0),
)
# gamma * x, or gamma * alpha * (e^(x * rate) - 1): Elu, Selu and Celu.
elu = function(
    "odtc.elu",
    lambda x, alpha, gamma, rate: _choose(
        x, x > 0.0, gamma * x, gamma * alpha * (tirx.exp(tirx.min(x, 0.0) * rate) - 1.0)
    ),
    lambda y, alpha, gamma, rate: _choose(y, y > 0.0, gamma, rate * (y + gamma * alpha)),
    reads_result=True,
)
shrink = function(
    "odtc.shrink",
    lambda x, lambd, bias: _choose(
        x, _inside(x, -lambd, lambd), 0.0, _choose(x, x > lambd, x - bias, x + bias)
    ),
    lambda x, lambd, bias: _choose(x, _inside(x, -lambd, lambd), 0.0, 1.0),
)


# --- pieces of straight lines --------------------------------------------------------------------


def _inside(x: Expr, low: float | None, high: float | None) -> Expr:
    within = [x >= low] if low is not None else []
    within += [x <= high] if high is not None else []
    return tirx.all(*within)


def _clip(x: Expr, low: float | None, high: float | None) -> Expr:
    """By comparison, so that NaN stays NaN; an integer bound of an integer tensor is exact.

    Where the bounds are in the wrong order, the upper one holds.
    """
    y = x if low is None else _choose(x, x < low, low, x)
    return y if high is None else _choose(x, y > high, high, y)


def _is_of_a_variable(call: relax.Call) -> bool:
    return isinstance(call.args[0], relax.Var) and is_of_images(call)


# PyTorch's clamp lets the adjoint pass at the bounds; hardtanh, ReLU6 and hardsigmoid do not.
clip = function(
    "odtc.clip", _clip, lambda x, low, high: _choose(x, _inside(x, low, high), 1.0, 0.0)
)
relu6 = function(
    "odtc.relu6",
    lambda x: _clip(x, 0.0, 6.0),
    lambda y: _choose(y, tirx.all(y > 0.0, y < 6.0), 1.0, 0.0),
    reads_result=True,
    channels_last=ChannelsLast((0,), _is_of_a_variable),
)
hardtanh = function(
    "odtc.hardtanh",
    _clip,
    lambda y, low, high: _choose(y, tirx.all(y > low, y < high), 1.0, 0.0),
    reads_result=True,
)
hard_sigmoid = function(
    "odtc.hard_sigmoid",
    lambda x, alpha, beta: _clip(alpha * x + beta, 0.0, 1.0),
    lambda y, alpha, beta: _choose(y, tirx.all(y > 0.0, y < 1.0), alpha, 0.0),
    reads_result=True,
)
hard_swish = function(
    "odtc.hard_swish",
    lambda x: x * _clip(x * (1.0 / 6.0) + 0.5, 0.0, 1.0),
    lambda x: _choose(x, x <= -3.0, 0.0, _choose(x, x >= 3.0, 1.0, x * (1.0 / 3.0) + 0.5)),
)


# --- smooth ones ---------------------------------------------------------------------------------


def _softplus(x: Expr) -> Expr:
    """log(1 + e^x) without overflow."""
    return tirx.max(x, 0.0) + tirx.log1p(tirx.exp(-tirx.abs(x)))


def _mish_gate(x: Expr) -> Expr:
    """tanh(softplus(x)), in powers of e^x; it is 1 in float32 from 10 on."""
    power = tirx.exp(tirx.min(x, 20.0))
    both = power * (power + 2.0)
    return both / (both + 2.0)


def _mish_slope(x: Expr) -> Expr:
    gate = _mish_gate(x)
    return gate + x * _sigmoid(x) * (1.0 - gate * gate)


def _swish_slope(x: Expr, alpha: float) -> Expr:
    gate = _sigmoid(alpha * x)
    return gate + alpha * x * gate * (1.0 - gate)


def _normal(x: Expr) -> Expr:
    """The normal distribution's function at x."""
    return 0.5 + 0.5 * tirx.erf(x * math.sqrt(0.5))


# The normal distribution's function below zero, over e to -x²/2: a polynomial without constant term
# of 1 / (1 + 0.275 |x|), within 5e-9. A fit of least squares, reweighted towards larger errors, in
# the form of Abramowitz and Stegun, "Handbook of Mathematical Functions", 7.1.26.
_TAIL_RATE = 0.275
_TAIL = (-0.114858339, 0.451998748, -0.330993464, 0.333932346, 0.0421114561, 0.117809258)


def _gelu_slope(x: Expr) -> Expr:
    """With one exponential for both terms; of double precision with an error function beside it."""
    density = 1.0 / math.sqrt(2.0 * math.pi)
    falling = tirx.exp(x * x * -0.5)
    if "float64" in str(x.ty):
        return _normal(x) + x * (falling * density)
    near = 1.0 / (1.0 + _TAIL_RATE * tirx.abs(x))
    tail = near * _TAIL[0]
    for coefficient in _TAIL[1:]:
        tail = (tail + coefficient) * near
    is_below = x < 0.0
    sides = _choose(x, is_below, tail, -tail)
    return falling * (x * density + sides) + _choose(x, is_below, 0.0, 1.0)


_RATE, _CUBIC = math.sqrt(2.0 / math.pi), 0.044715


def _tanh_gate(x: Expr) -> Expr:
    return tirx.tanh(_RATE * (x + _CUBIC * (x * x * x)))


def _gelu_tanh_slope(x: Expr) -> Expr:
    gate = _tanh_gate(x)
    inner = _RATE * (1.0 + 3.0 * _CUBIC * (x * x))
    return 0.5 * (1.0 + gate) + 0.5 * x * (1.0 - gate * gate) * inner


# Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016.
gelu = function("odtc.gelu", lambda x: x * _normal(x), _gelu_slope)
gelu_tanh = function("odtc.gelu_tanh", lambda x: 0.5 * x * (1.0 + _tanh_gate(x)), _gelu_tanh_slope)
# Misra, "Mish", 2019.
mish = function("odtc.mish", lambda x: x * _mish_gate(x), _mish_slope)
softplus = function("odtc.softplus", _softplus, _sigmoid)
softsign = function(
    "odtc.softsign",
    lambda x: x / (1.0 + tirx.abs(x)),
    lambda y: (1.0 - tirx.abs(y)) * (1.0 - tirx.abs(y)),
    reads_result=True,
)
# Ramachandran et al., "Searching for Activation Functions", 2017.
swish = function("odtc.swish", lambda x, alpha: x * _sigmoid(alpha * x), _swish_slope)


# --- powers --------------------------------------------------------------------------------------


def _power(x: Expr, exponent: float) -> Expr:
    return tirx.exp(tirx.log(x) * exponent)


# Of positive numbers: only for them does the result say which it was.
positive_power = function(
    "odtc.positive_power",
    _power,
    lambda y, exponent: exponent * _power(y, (exponent - 1.0) / exponent) if exponent else y * 0.0,
    reads_result=True,
)


# --- hyperbolic ones: TVM's cannot be vectorised, and then do not compile ------------------------


def _cosh(x: Expr) -> Expr:
    return 0.5 * (tirx.exp(x) + tirx.exp(-x))


def _sinh(x: Expr) -> Expr:
    """Near zero by its series: the difference of two exponentials has no digits left there."""
    square = x * x
    series = 1.0
    for divisor in (72.0, 42.0, 20.0, 6.0):
        series = 1.0 + square * (1.0 / divisor) * series
    return _choose(x, tirx.abs(x) < 1.0, x * series, 0.5 * (tirx.exp(x) - tirx.exp(-x)))


cosh = function("odtc.cosh", _cosh, _sinh)
sinh = function("odtc.sinh", _sinh, _cosh)


# --- powers --------------------------------------------------------------------------------------


def _integer_power(x: Expr, exponent: int) -> Expr:
    return math.prod([x] * exponent, start=tirx.const(1, x.ty.dtype))


# Products, where a power would be a call of a library's function.
integer_power = function(
    "odtc.integer_power",
    _integer_power,
    lambda x, exponent: float(exponent) * _integer_power(x, exponent - 1),
)
reciprocal = function("odtc.reciprocal", lambda x: 1.0 / x, lambda y: -y * y, reads_result=True)
