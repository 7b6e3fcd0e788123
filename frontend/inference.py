"""The forward function as it is evaluated: without what only its training needs."""

from tvm import relax

from odtc.frontend.dropout import is_dropout

_WITH_GRAD = "relax.call_tir_with_grad"


def without_gradient(_: relax.BlockBuilder, binding: relax.Binding) -> relax.Expr | None:
    """A replay rule: a call of a kernel that names a gradient rule becomes a plain call."""
    call = binding.value
    if not (isinstance(call, relax.Call) and getattr(call.op, "name", "") == _WITH_GRAD):
        return None
    kernel, operands = call.args
    return relax.op.call_tir(kernel, operands, next(iter(call.ty_args)))


def without_dropout(_: relax.BlockBuilder, binding: relax.Binding) -> relax.Expr | None:
    """A replay rule: outside of training, dropout is the identity."""
    return binding.value.args[0] if is_dropout(binding) else None
