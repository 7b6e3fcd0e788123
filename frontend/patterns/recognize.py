"""Finds the functions that an export spells out in several operators, and puts one in their place.

Each step of such a chain would keep a tensor for the backward pass; the operator that stands for
the whole keeps one. Exporters write SiLU as `x * sigmoid(x)`, GELU with `erf` or `tanh`, and a
softmax under a mask as `where(isnan(s), 0, s)`.
"""

import math
from collections.abc import Callable, Collection, Mapping

from tvm import relax
from tvm.relax.dpl import DFPattern, is_const, is_op, rewrite_call, wildcard

from odtc.dialect.elements import pointwise
from odtc.dialect.rows.softmax import safe_softmax

Matches = Mapping[DFPattern, relax.Expr]
# What stands for the match; None where it is not what it looks like.
Replace = Callable[[Matches], relax.Expr | None]
# What the constants in a chain are rounded by.
_TOLERANCE = 1e-4

_X = wildcard()


def _times(*factors: DFPattern) -> DFPattern:
    """The product of two or three factors, in any order."""
    if len(factors) == 2:
        left, right = factors
        return is_op("relax.multiply")(left, right) | is_op("relax.multiply")(right, left)
    one, *others = [
        _times(factor, _times(*(f for f in factors if f is not factor))) for factor in factors
    ]
    for other in others:
        one = one | other
    return one


def _plus(left: DFPattern, right: DFPattern) -> DFPattern:
    return is_op("relax.add")(left, right) | is_op("relax.add")(right, left)


def _holds(matches: Matches, expected: Mapping[DFPattern, float]) -> bool:
    """Whether constants of one element have the values."""
    for pattern, value in expected.items():
        constant = matches[pattern].value.numpy()
        if constant.size != 1 or not math.isclose(constant.item(), value, rel_tol=_TOLERANCE):
            return False
    return True


def _silu() -> tuple[DFPattern, Replace]:
    return _times(_X, is_op("relax.sigmoid")(_X)), lambda m: pointwise.swish(m[_X], alpha=1.0)


def _hard_swish() -> tuple[DFPattern, Replace]:
    gate = is_op(pointwise.hard_sigmoid.name)(_X)

    def replace(matches: Matches) -> relax.Expr | None:
        attrs = matches[gate].attrs
        usual = math.isclose(attrs["alpha"], 1 / 6, rel_tol=_TOLERANCE) and attrs["beta"] == 0.5
        return pointwise.hard_swish(matches[_X]) if usual else None

    return _times(_X, gate), replace


def _gelu(scaled: Callable[[DFPattern], DFPattern], factor: float) -> tuple[DFPattern, Replace]:
    """X / 2 * (1 + erf(x / √2)), the factor written as a product or a quotient."""
    half, one, root = is_const(), is_const(), is_const()
    gate = _plus(is_op("relax.erf")(scaled(root)), one)

    def replace(matches: Matches) -> relax.Expr | None:
        usual = _holds(matches, {half: 0.5, one: 1.0, root: factor})
        return pointwise.gelu(matches[_X]) if usual else None

    return _times(_X, half, gate), replace


def _gelu_tanh() -> tuple[DFPattern, Replace]:
    """X / 2 * (1 + tanh(√(2/π) * (x + 0.044715 x³)))."""
    half, one, rate, cubic = is_const(), is_const(), is_const(), is_const()
    cube = is_op(pointwise.integer_power.name)(_X)
    inner = _times(rate, _plus(_X, _times(cubic, cube)))
    gate = _plus(is_op("relax.tanh")(inner), one)

    def replace(matches: Matches) -> relax.Expr | None:
        numbers = {half: 0.5, one: 1.0, rate: math.sqrt(2 / math.pi), cubic: 0.044715}
        usual = matches[cube].attrs["exponent"] == 3 and _holds(matches, numbers)
        return pointwise.gelu_tanh(matches[_X]) if usual else None

    return _times(_X, half, gate), replace


def _masked_softmax() -> tuple[DFPattern, Replace]:
    softmax, zero = is_op("relax.nn.softmax")(_X), is_const()
    pattern = is_op("relax.where")(is_op("relax.isnan")(softmax), zero, softmax)

    def replace(matches: Matches) -> relax.Expr | None:
        if matches[zero].value.numpy().size != 1 or matches[zero].value.numpy().any():
            return None
        return safe_softmax(matches[_X], axis=int(matches[softmax].attrs.axis))

    return pattern, replace


# What stands for a chain, after the operators without which there is no such chain: to look for
# one takes a walk over the whole function.
_FUNCTIONS = (
    ({"relax.sigmoid"}, *_silu()),
    ({pointwise.hard_sigmoid.name}, *_hard_swish()),
    ({"relax.erf"}, *_gelu(lambda root: is_op("relax.divide")(_X, root), math.sqrt(2))),
    ({"relax.erf"}, *_gelu(lambda root: _times(_X, root), math.sqrt(0.5))),
    ({"relax.tanh", pointwise.integer_power.name}, *_gelu_tanh()),
    ({"relax.isnan", "relax.nn.softmax"}, *_masked_softmax()),
)


def recognize(function: relax.Function, operators: Collection[str]) -> relax.Function:
    """The function with each of these in place of its chain; arguments and results stay.

    Args:
        function: of any number of blocks.
        operators: names of all that it calls.
    """
    for needed, pattern, replace in _FUNCTIONS:
        if needed.issubset(operators):
            function = rewrite_call(pattern, _unless_other(replace), function)
    return function


def _unless_other(replace: Replace) -> Callable[[relax.Expr, Matches], relax.Expr]:
    def rewrite(call: relax.Expr, matches: Matches) -> relax.Expr:
        found = replace(matches)
        # A constant of one element and many axes would have given the product those axes.
        widened = len(call.ty.shape) != len(matches[_X].ty.shape)
        return call if found is None or widened else found

    return rewrite
