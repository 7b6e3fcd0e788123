"""The table of gradient rules, and its registration with TVM.

A rule takes the operator's output variable, its call, the adjoint of its output and the open block
builder, and returns one adjoint per argument. It replaces TVM's own rule where there is one.
"""

from collections.abc import Callable
from functools import cache

import tvm
from tvm import relax

from odtc.frontend.gradients import activation, normalization, structural

Rule = Callable[[relax.Var, relax.Call, relax.Expr, relax.BlockBuilder], list[relax.Expr]]

RULES: dict[str, Rule] = {
    "relax.grad.no_grad": structural.stop,
    "relax.nn.batch_norm": normalization.batch_norm,
    "relax.nn.relu": activation.relu,
}

# Above the level of TVM's own rules, so that ours win.
_LEVEL = 11


@cache
def register_gradients() -> None:
    """Adds the table to TVM's operator registry, once in a process."""
    for op_name, rule in RULES.items():
        tvm.ir.register_op_attr(op_name, "FPrimalGradient", rule, level=_LEVEL)
