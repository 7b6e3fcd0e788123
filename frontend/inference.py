"""The forward function as it is evaluated: without what only its training needs."""

import tvm
from tvm import relax

from odtc.frontend.importer import FORWARD
from odtc.frontend.rebuild import builder_with_kernels, replay_body

_WITH_GRAD = "relax.call_tir_with_grad"


def without_gradient(_: relax.BlockBuilder, binding: relax.Binding) -> relax.Expr | None:
    """A replay rule: a call of a kernel that names a gradient rule becomes a plain call."""
    call = binding.value
    if not (isinstance(call, relax.Call) and getattr(call.op, "name", "") == _WITH_GRAD):
        return None
    kernel, operands = call.args
    return relax.op.call_tir(kernel, operands, next(iter(call.ty_args)))


def inference(module: tvm.IRModule, name: str) -> relax.Function:
    """The forward function under another name, with variables of its own.

    Args:
        module: what `import_forward` returns.
        name: of the function.
    """
    forward = relax.utils.copy_with_new_vars(module[FORWARD])
    builder = builder_with_kernels(module)
    with builder.function(name, list(forward.params)):
        with builder.dataflow():
            replay_body(builder, forward, without_gradient)
            result = builder.emit_output(forward.body.body)
        builder.emit_func_output(result)
    return builder.finalize()[name]
