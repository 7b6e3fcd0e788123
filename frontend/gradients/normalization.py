"""Gradients of the normalisation operators."""

import math

import numpy as np
from tvm import relax
from tvm.relax import op as R  # noqa: N812
from tvm.relax.op.grad import no_grad

from odtc.frontend.gradients.rule import Rule


def batch_norm(
    _: relax.Var, call: relax.Call, grad: relax.Expr, builder: relax.BlockBuilder
) -> list[relax.Expr]:
    """Batch normalisation over batch statistics, in closed form (Ioffe and Szegedy, 2015, §3).

    With `x' = (x - mean) / sqrt(var + eps)` over the m elements of a channel:
    `dx = gamma / sqrt(var + eps) * (dy - mean(dy) - x' * mean(dy * x'))`. The statistics are
    computed again from `x`, so that `x` is all that is saved. Running statistics get no gradient.
    """
    data, gamma, _beta, mean, variance = call.args
    axis, ndim = int(call.attrs.axis), len(data.ty.shape)
    channels = int(data.ty.shape[axis])
    axes = [i for i in range(ndim) if i != axis]
    per_channel = [channels if i == axis else 1 for i in range(ndim)]
    count = math.prod(int(data.ty.shape[i]) for i in axes)
    out_grad = _first(grad)

    emit = builder.emit
    centred = emit(R.subtract(data, emit(R.mean(data, axes, keepdims=True))))
    batch_variance = emit(R.mean(emit(R.multiply(centred, centred)), axes, keepdims=True))
    epsilon = relax.const(np.float32(call.attrs.epsilon))
    scale = emit(R.divide(relax.const(np.float32(1)), emit(R.sqrt(R.add(batch_variance, epsilon)))))
    normal = emit(R.multiply(centred, scale))
    beta_grad = emit(R.sum(out_grad, axes, keepdims=True))
    gamma_grad = emit(R.sum(emit(R.multiply(out_grad, normal)), axes, keepdims=True))

    share = relax.const(np.float32(1.0 / count))
    along = emit(R.multiply(normal, emit(R.multiply(gamma_grad, share))))
    rest = emit(R.subtract(R.subtract(out_grad, emit(R.multiply(beta_grad, share))), along))
    factor = emit(R.multiply(R.reshape(gamma, per_channel), scale))
    return [
        R.multiply(factor, rest),
        R.reshape(gamma_grad, (channels,)),
        R.reshape(beta_grad, (channels,)),
        no_grad(mean),
        no_grad(variance),
    ]


def _first(grad: relax.Expr) -> relax.Expr:
    """The adjoint of the first result; the statistics are no part of the loss."""
    return grad.fields[0] if isinstance(grad, relax.Tuple) else relax.TupleGetItem(grad, 0)


RULES: dict[str, Rule] = {"relax.nn.batch_norm": batch_norm}
