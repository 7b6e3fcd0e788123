"""Helpers of gradient rules of several families."""

from tvm import relax
from tvm.relax import op as R  # noqa: N812


def fitted(builder: relax.BlockBuilder, grad: relax.Expr, operand: relax.Expr) -> relax.Expr:
    """The adjoint of a broadcast operand: summed to the operand's shape."""
    grad = builder.emit(grad)
    wanted = [int(size) for size in operand.ty.shape]
    if [int(size) for size in grad.ty.shape] == wanted:
        return grad
    return R.collapse_sum_to(grad, wanted)


def number(value: float, like: relax.Expr) -> relax.Expr:
    """A constant of the type of a tensor's elements."""
    return relax.const(value, str(like.ty.dtype))


def kept(call: relax.Call, reduced: relax.Expr) -> relax.Expr:
    """A result of a reduction, or its adjoint, with the reduced axes as axes of size one."""
    shape = [int(size) for size in call.args[0].ty.shape]
    axes = range(len(shape)) if call.attrs["axis"] is None else map(int, call.attrs["axis"])
    gone = {axis % len(shape) for axis in axes}
    ones = [1 if axis in gone else size for axis, size in enumerate(shape)]
    return reduced if call.attrs["keepdims"] else R.reshape(reduced, ones)
