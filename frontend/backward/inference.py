"""The forward function as it is evaluated: without what only its training needs."""

import tvm
from tvm import relax

from odtc.frontend.backward.dropout import is_dropout
from odtc.frontend.backward.rebuild import builder_with_kernels, replay_body
from odtc.frontend.importer import FORWARD

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


def forward_only(module: tvm.IRModule) -> tvm.IRModule:
    """The function of `import_forward` without what only its training needs."""
    forward = module[FORWARD]
    builder = builder_with_kernels(module)
    with builder.function(FORWARD, list(forward.params)):
        with builder.dataflow():
            replay_body(builder, forward, without_gradient, without_dropout)
            result = builder.emit_output(forward.body.body)
        builder.emit_func_output(result)
    return builder.finalize()
