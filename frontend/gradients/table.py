"""The table of gradient rules, and its registration with TVM.

Each family has a file with a table `RULES`, by the name of the Relax operator. A rule replaces
TVM's own where there is one. Operators of our own are declared with theirs, in `odtc/dialect`.
"""

from collections.abc import Callable
from functools import cache

import tvm
from tvm import relax

from odtc.dialect.operator import LEVEL
from odtc.dialect.rule import Rule
from odtc.frontend.gradients import (
    activation,
    arithmetic,
    indexing,
    mathematics,
    reduction,
    shape,
    structural,
)
from odtc.frontend.gradients.kernels import KERNEL_RULES, KernelRule
from odtc.frontend.gradients.nn import (
    convolution,
    normalization,
    padding,
    softmax,
)

_FAMILIES = (
    activation,
    arithmetic,
    convolution,
    indexing,
    mathematics,
    normalization,
    padding,
    reduction,
    shape,
    softmax,
    structural,
)

RULES: dict[str, Rule] = {name: rule for family in _FAMILIES for name, rule in family.RULES.items()}

# Where TVM looks for the rule that a `call_tir_with_grad` names.
_KERNEL_PREFIX = "tvm.relax.te_grad._register."


@cache
def register_gradients() -> None:
    """Adds the table to TVM's operator registry, once in a process."""
    for op_name, rule in RULES.items():
        tvm.ir.register_op_attr(op_name, "FPrimalGradient", rule, level=LEVEL)
    for name, kernel_rule in KERNEL_RULES.items():
        tvm.register_global_func(_KERNEL_PREFIX + name, _for_tvm(kernel_rule))


def _for_tvm(rule: KernelRule) -> Callable[..., relax.Var]:
    """A rule as TVM's gradient pass calls it: it wants the adjoints in one variable."""

    def call_rule(
        _: relax.Var, call: relax.Call, grad: relax.Expr, builder: relax.BlockBuilder
    ) -> relax.Var:
        adjoints = rule(builder, call, grad)
        return builder.emit(adjoints[0] if len(adjoints) == 1 else relax.Tuple(adjoints))

    return call_rule
