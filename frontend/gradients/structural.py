"""Gradients of operators that only say how tensors are used."""

from tvm import relax
from tvm.relax.op.grad import no_grad

from odtc.dialect.rule import Rule


def stop(
    _: relax.Var, call: relax.Call, __: relax.Expr, ___: relax.BlockBuilder
) -> list[relax.Expr]:
    """Nothing flows back through a mark that says so."""
    return [no_grad(call.args[0])]


RULES: dict[str, Rule] = {"relax.grad.no_grad": stop}
