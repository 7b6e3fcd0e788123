"""The table of gradient rules, and its registration with TVM.

Each family has a file with a table `RULES`, by the name of the Relax operator. A rule replaces
TVM's own where there is one.
"""

from functools import cache

import tvm

from odtc.frontend.gradients import (
    activation,
    arithmetic,
    indexing,
    mathematics,
    normalization,
    reduction,
    shape,
    structural,
)
from odtc.frontend.gradients.rule import Rule

_FAMILIES = (
    activation,
    arithmetic,
    indexing,
    mathematics,
    normalization,
    reduction,
    shape,
    structural,
)

RULES: dict[str, Rule] = {name: rule for family in _FAMILIES for name, rule in family.RULES.items()}

# Above the level of TVM's own rules, so that ours win.
_LEVEL = 11


@cache
def register_gradients() -> None:
    """Adds the table to TVM's operator registry, once in a process."""
    for op_name, rule in RULES.items():
        tvm.ir.register_op_attr(op_name, "FPrimalGradient", rule, level=_LEVEL)
