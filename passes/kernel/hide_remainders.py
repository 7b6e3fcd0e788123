"""Hides from LLVM what a remainder is taken of, which its vectoriser may take for a straight line.

    buffer[i % 8]  ─→  buffer[hidden(i) % 8]

For LLVM a remainder by a power of two is a counter of so few bits, that runs in a straight line
while it does not wrap. Its vectoriser then reads consecutive elements, behind a check that the
counter does not. From LLVM 20 on the check is dropped where a wider counter of the same loop does
not wrap (its PR 118184; mended after 22.1 by its PR 191498), and elements behind the period are
read in place of its first ones: of the gradient of a rotary embedding those of the next step, or of
what lies behind the tensor.

Of what a function returns that LLVM knows little about it makes no counter. That function is a
product of fixed point by one, with no digit behind the point: no instruction at all in the end.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import tvm
import tvm_ffi
from tvm import ir, tirx

from odtc.passes.contract import Pass

# The lower bits do not depend on the upper ones, so that these may be cut off; and TVM computes
# indices in 32 bits where it finds that they fit, which it does not of a function of 64 bits.
_INTEGER = "int32"
_INTEGERS = ("int32", "int64")
_MOST = 1 << 30
_QUESTION = "prim.if_then_else"

Variables = set[ir.Var]


@dataclass(frozen=True)
class HideRemainders(Pass):
    """Hides what remainders by powers of two are taken of, in kernels whose schedules are applied.

    Vectors that a kernel is written with stay as they are: LLVM's vectoriser leaves their loops.
    Loops that are marked for vectors, which TVM makes scalar again where they ask a question for
    each element, become scalar here.
    """

    name: ClassVar[str] = "hide-remainders"

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites the remainders in all kernels."""
        rewritten = module.clone()
        for variable, kernel in module.functions_items():
            if isinstance(kernel, tirx.PrimFunc) and _remainders(kernel.body):
                rewritten.update_func(variable, kernel.with_body(_rewritten(kernel.body)))
        return rewritten


def _rewritten(body: tirx.Stmt) -> tirx.Stmt:
    body = tvm_ffi.structural_map(body, (tirx.For, _asked_in_turn))
    vectors: Variables = set()
    for loop in _found(body, tirx.For, _is_vector):
        vectors |= _bound_in(loop)

    def hidden(remainder: Any) -> ir.Expr:
        if not _is_periodic(remainder) or _reads(remainder, vectors):
            return remainder
        one, digits = tirx.const(1, _INTEGER), tirx.const(0, "int32")
        number = remainder.a.astype(_INTEGER)
        number = tirx.call_llvm_pure_intrin(_INTEGER, "llvm.umul.fix", number, one, digits)
        period = tirx.const(int(remainder.b), _INTEGER)
        return tirx.FloorMod(number, period).astype(str(remainder.ty))

    return tvm_ffi.structural_map(body, (tirx.FloorMod, hidden))


def _asked_in_turn(loop: Any) -> tirx.Stmt:
    """A loop marked for vectors that TVM would make scalar, as a scalar one."""
    if not _is_vector(loop) or not _remainders(loop.body):
        return loop
    own = _bound_in(loop)
    conditions = [each.condition for each in _found(loop.body, tirx.IfThenElse)]
    conditions += [each.args[0] for each in _found(loop.body, ir.Call, _is_question)]
    if not any(_reads(each, own) for each in conditions):
        return loop
    return tirx.For(loop.loop_var, loop.min, loop.extent, tirx.ForKind.SERIAL, loop.body)


def _remainders(statement: tirx.Stmt) -> list[Any]:
    return _found(statement, tirx.FloorMod, _is_periodic)


def _is_periodic(remainder: Any) -> bool:
    if str(remainder.ty) not in _INTEGERS or not isinstance(remainder.b, tirx.IntImm):
        return False
    period = int(remainder.b)
    return 1 < period <= _MOST and period & (period - 1) == 0


def _is_vector(loop: Any) -> bool:
    return loop.kind == tirx.ForKind.VECTORIZED


def _is_question(call: Any) -> bool:
    return isinstance(call.op, ir.Op) and call.op.name == _QUESTION


def _bound_in(loop: Any) -> Variables:
    """The variable of a loop, and those that are bound within."""
    kinds = ((tirx.For, "loop_var"), (tirx.Bind, "var"), (tirx.Let, "var"))
    return {getattr(each, name) for kind, name in kinds for each in _found(loop, kind)}


def _reads(value: ir.Expr, variables: Variables) -> bool:
    return any(each in variables for each in tirx.analysis.undefined_vars(value))


def _found(node: Any, kind: type, test: Callable[[Any], bool] = lambda _: True) -> list[Any]:
    """All nodes of a kind in a statement that pass a test."""
    found: list[Any] = []
    tvm_ffi.structural_walk(node, (kind, lambda each: found.append(each) if test(each) else None))
    return found
