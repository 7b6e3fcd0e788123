"""The gradient of dropout."""

from tvm import relax
from tvm.relax.op.grad import no_grad

from odtc.core.ir.kernel_marks import DROPOUT
from odtc.dialect.rule import Rule


def dropout(
    _: relax.Var, call: relax.Call, grad: relax.Expr, __: relax.BlockBuilder
) -> list[relax.Expr]:
    """The adjoint under the same mask, which is computed again: nothing is saved."""
    step = call.args[1]
    return [relax.Call(call.op, [grad, step], call.attrs), no_grad(step)]


RULES: dict[str, Rule] = {DROPOUT: dropout}
