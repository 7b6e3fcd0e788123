"""Softmax in which a row that is masked as a whole is zero, not NaN."""

from tvm import relax, te, tirx, topi

from odtc.frontend.gradients.nn.softmax import of_softmax
from odtc.frontend.relax_ops.define import define


def _kernel(data: te.Tensor, axis: int) -> te.Tensor:
    """The softmax along an axis, and zero where that is NaN."""
    normal, zero = topi.nn.softmax(data, axis), tirx.const(0, data.dtype)
    return te.compute(
        data.shape,
        lambda *i: tirx.Select(tirx.isnan(normal(*i)), zero, normal(*i)),
        name="safe_softmax",
    )


def _gradient(
    result: relax.Var, call: relax.Call, grad: relax.Expr, builder: relax.BlockBuilder
) -> list[relax.Expr]:
    """That of the softmax, from its result: where it is zero, nothing flows back."""
    return [of_softmax(result, grad, int(call.attrs["axis"]), builder)]


safe_softmax = define("safe_softmax", _kernel, _gradient)
