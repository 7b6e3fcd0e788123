"""The type of gradient rules."""

from collections.abc import Callable

from tvm import relax

# From the operator's output variable, its call, the adjoint of its output and the open block
# builder to one adjoint per argument.
Rule = Callable[[relax.Var, relax.Call, relax.Expr, relax.BlockBuilder], list[relax.Expr]]
