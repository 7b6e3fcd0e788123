"""Extrema of floats keep what is not a number, as PyTorch's and ONNX's do.

TIR's are C's `a > b ? a : b`, which drops a NaN on the left, and code generators may make of them
what drops one on either side. Kernels are written and scheduled with TIR's own, which schedules
know, and so are TVM's; here each gets a form that keeps both. So whatever a step computes of a NaN
is NaN, up to its loss, and nobody trains on with numbers that were none.

The forms give the bits of TIR's for all numbers, except that on a CPU `max(-0.0, 0.0)` may stay
-0.0, as in PyTorch. Where NaN shows anyway, as in the sum of a softmax, a kernel writes
`larger_number`, which is left alone.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import tvm
import tvm_ffi
from tvm import ir, tirx

from odtc.passes.contract import Pass
from odtc.passes.ir.written_out import Grown, Growth

# What any form makes of an extremum, at most. A value that is named counts as often as code
# generators look at it: a chain of twelve took them minutes.
GROWN: Grown = {"Max": Growth(5, 6), "Min": Growth(5, 6)}
# From an extremum of floats, a `tirx.Max` or `tirx.Min`, to what has its value, but keeps NaN; a
# `tirx.Select`, which keeps it as it stands, may become something shorter.
NanGuard = Callable[[Any], ir.Expr]


def larger_number(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """The larger of two; what is not a number may get lost."""
    return tirx.Select(a > b, a, b)


def is_number(value: ir.Expr) -> bool:
    """Whether an operand is a constant, which no NaN is, or a vector of one."""
    return isinstance(value.value if isinstance(value, tirx.Broadcast) else value, tirx.FloatImm)


def by_comparison(node: Any) -> ir.Expr:
    """With a constant one instruction of x86, as before; of two values three."""
    if isinstance(node, tirx.Select):
        return node
    if is_number(node.a):
        return node
    if is_number(node.b):
        # False for NaN, and so in the order in which it stays.
        return _named(node.a, lambda x: tirx.Select(_is_beyond(node, x), node.b, x))
    infinity = _like(node.a, math.inf)
    return _named(node.a, lambda a: tirx.Select(a <= infinity, type(node)(a, node.b), a))


def by_question(node: Any) -> ir.Expr:
    """Where compilers take extrema for functions that drop NaN: what is NaN is found first."""
    if isinstance(node, tirx.Select):
        return node
    if is_number(node.a):
        return by_question(type(node)(node.b, node.a))

    def of(a: ir.Expr, b: ir.Expr) -> ir.Expr:
        other = type(node)(a, b)
        other = other if is_number(b) else tirx.Select(tirx.isnan(b), b, other)
        return tirx.Select(tirx.isnan(a), a, other)

    return _named(node.a, lambda a: _named(node.b, lambda b: of(a, b)))


def by_instruction(node: Any) -> ir.Expr:
    """An instruction that AArch64 has, where x86 would take several.

    It is taken for a choice that bounds a value by a constant, too: a comparison, a choice and
    copies of registers otherwise.
    """
    node = _as_extremum(node)
    if isinstance(node, tirx.Select):
        return node
    name = "llvm.maximum" if isinstance(node, tirx.Max) else "llvm.minimum"
    return tirx.call_llvm_pure_intrin(node.ty, name, node.a, node.b)


@dataclass(frozen=True)
class KeepNan(Pass):
    """Lets extrema of floats keep NaN, in kernels whose schedules are applied.

    Attributes:
        form: of an extremum on the target.
    """

    name: ClassVar[str] = "keep-nan"
    form: NanGuard = field(repr=False)

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites the extrema of floats in all kernels."""

        def kept(node: Any) -> ir.Expr:
            return self.form(node) if "float" in str(node.ty.dtype) else node

        rewritten = module.clone()
        for variable, kernel in module.functions_items():
            if isinstance(kernel, tirx.PrimFunc):
                body = kernel.body
                for kind in (tirx.Max, tirx.Min, tirx.Select):
                    body = tvm_ffi.structural_map(body, (kind, kept))
                rewritten.update_func(variable, kernel.with_body(body))
        return rewritten


def _as_extremum(node: Any) -> Any:
    """The extremum that a choice between a value and a constant bound of it is; else the node."""
    if not (isinstance(node, tirx.Select) and is_number(node.true_value)):
        return node
    bound, value = node.true_value, node.false_value
    for kind, beyond in (
        (tirx.Max, (tirx.LT(value, bound), tirx.GT(bound, value))),
        (tirx.Min, (tirx.GT(value, bound), tirx.LT(bound, value))),
    ):
        if any(tvm_ffi.structural_equal(node.condition, each) for each in beyond):
            return kind(value, bound)
    return node


def _is_beyond(node: Any, x: ir.Expr) -> ir.Expr:
    return x < node.b if isinstance(node, tirx.Max) else x > node.b


def _like(value: ir.Expr, number: float) -> ir.Expr:
    return tirx.const(number, str(value.ty))


def _named(value: ir.Expr, build: Callable[[ir.Expr], ir.Expr]) -> ir.Expr:
    """`build` of a value that is computed once."""
    if isinstance(value, ir.Var) or is_number(value):
        return build(value)
    name = tirx.Var("v", value.ty)
    return tirx.Let(name, tvm_ffi.structural_map(value, (tirx.Cast, _selected)), build(name))


def _selected(cast: tirx.Cast) -> ir.Expr:
    """A condition that is cast to a number, as the choice that it is.

    TVM's code generators ask for the range of what is named, and fail for vectors of conditions.
    """
    if str(cast.value.ty.dtype).startswith("bool") and str(cast.ty.dtype).startswith("float"):
        return tirx.Select(cast.value, _like(cast, 1.0), _like(cast, 0.0))
    return cast
