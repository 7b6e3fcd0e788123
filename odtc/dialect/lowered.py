"""Checks that what a rule computes can be made code of, when the rule is made."""

import tvm_ffi
from tvm import ir
from tvm.ir import Expr

from odtc.core.ir.kernel_functions import FUNCTIONS


def require_lowered(value: Expr) -> Expr:
    """An expression of an element, all of whose functions have code on every kind of target.

    Raises:
        ValueError: one has none; the message names it, and those that there are.
    """
    calls: list[ir.Call] = []
    tvm_ffi.structural_walk(value, (ir.Call, calls.append))
    names = {getattr(call.op, "name", str(call.op)) for call in calls}
    unknown = sorted(names - FUNCTIONS)
    if unknown:
        raise ValueError(
            f"no code is made of {', '.join(unknown)} on some targets; a rule may call "
            f"{', '.join(sorted(FUNCTIONS))}"
        )
    return value
