"""Gradients of Relax's normalisation operators.

Each is one kernel. Besides the operator's input nothing is saved: statistics of rows are computed
again.
"""

import numpy as np
from tvm import relax
from tvm.relax import op as R  # noqa: N812
from tvm.relax.op.grad import no_grad

from odtc.dialect.rows.norms import group_norm_backward, layer_norm_backward
from odtc.dialect.rule import Rule


def still_batch_norm(
    _: relax.Var, call: relax.Call, grad: relax.Expr, builder: relax.BlockBuilder
) -> list[relax.Expr]:
    """Batch normalisation by running statistics, all of it frozen: one factor for each channel."""
    data, gamma, _beta, _mean, variance = call.args
    axis = int(call.attrs.axis)
    per_channel = [int(n) if i == axis else 1 for i, n in enumerate(data.ty.shape)]
    root = R.sqrt(R.add(variance, relax.const(np.float32(call.attrs.epsilon))))
    factor = builder.emit(R.divide(gamma, builder.emit(root)))
    data_grad = R.multiply(_first(grad), builder.emit(R.reshape(factor, per_channel)))
    return [data_grad, *(no_grad(argument) for argument in call.args[1:])]


def layer_norm(
    _: relax.Var, call: relax.Call, grad: relax.Expr, builder: relax.BlockBuilder
) -> list[relax.Expr]:
    """Layer normalisation over the last dimensions (Ba, Kiros and Hinton, 2016).

    Also root-mean-square (Zhang and Sennrich, 2019): it takes no mean off and has no shift.
    """
    data, gamma, *beta = call.args
    found = builder.emit(
        layer_norm_backward(
            grad, data, gamma, epsilon=float(call.attrs.epsilon), centred=bool(beta)
        )
    )
    return [relax.TupleGetItem(found, slot) for slot in range(len(call.args))]


def group_norm(
    _: relax.Var, call: relax.Call, grad: relax.Expr, builder: relax.BlockBuilder
) -> list[relax.Expr]:
    """Group normalisation (Wu and He, 2018): statistics of each sample and group of channels."""
    data, gamma, _beta = call.args
    attrs = call.attrs
    found = builder.emit(
        group_norm_backward(
            grad, data, gamma, epsilon=float(attrs.epsilon), groups=int(attrs.num_groups)
        )
    )
    return [relax.TupleGetItem(found, slot) for slot in range(3)]


def _first(grad: relax.Expr) -> relax.Expr:
    """The adjoint of the first result; the statistics are no part of the loss."""
    return grad.fields[0] if isinstance(grad, relax.Tuple) else relax.TupleGetItem(grad, 0)


RULES: dict[str, Rule] = {
    "relax.nn.batch_norm": still_batch_norm,
    "relax.nn.group_norm": group_norm,
    "relax.nn.layer_norm": layer_norm,
    "relax.nn.rms_norm": layer_norm,
}
