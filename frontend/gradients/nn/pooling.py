"""The gradient of max pooling in training."""

from tvm import relax

from odtc.core.ir.kernel_marks import MAX_POOL
from odtc.frontend.gradients.rule import Rule
from odtc.frontend.relax_ops.max_pool2d import max_pool2d_backward

_WINDOW = ("pool_size", "strides", "padding", "dilation")


def max_pool2d(
    result: relax.Var, call: relax.Call, grad: relax.Expr, builder: relax.BlockBuilder
) -> list[relax.Expr]:
    """Each adjoint goes to the element that was chosen."""
    adjoint = grad.fields[0] if isinstance(grad, relax.Tuple) else relax.TupleGetItem(grad, 0)
    chosen = builder.emit(relax.TupleGetItem(result, 1))
    window = {name: call.attrs[name] for name in _WINDOW}
    shape = [int(size) for size in call.args[0].ty.shape]
    return [max_pool2d_backward(builder.emit(adjoint), chosen, shape=shape, **window)]


RULES: dict[str, Rule] = {MAX_POOL: max_pool2d}
