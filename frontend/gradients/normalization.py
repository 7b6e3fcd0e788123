"""Gradients of the normalisation operators.

Each computes its statistics again from the operator's input, so that this is all that is saved.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tvm import relax
from tvm.relax import op as R  # noqa: N812
from tvm.relax.op.grad import no_grad

from odtc.core.kernel_marks import BATCH_NORM
from odtc.frontend.gradients.rule import Rule
from odtc.frontend.relax_ops.batch_norm import batch_norm_backward


@dataclass(frozen=True)
class Normal:
    """A tensor under normalisation, as the backward sees it.

    Attributes:
        builder: of the open block.
        data: the tensor, viewed so that the statistics are over whole dimensions.
        axes: these dimensions.
        epsilon: added to the variance.
        centred: whether the mean is taken off.
    """

    builder: relax.BlockBuilder
    data: relax.Expr
    axes: Sequence[int]
    epsilon: float
    centred: bool = True

    def values(self) -> tuple[relax.Expr, relax.Expr]:
        """`(x - mean) / sqrt(var + eps)`, and one over that root."""
        emit = self.builder.emit
        centred = self.data
        if self.centred:
            centred = emit(R.subtract(self.data, emit(self.mean(self.data))))
        variance = emit(self.mean(emit(R.multiply(centred, centred))))
        root = R.sqrt(R.add(variance, relax.const(np.float32(self.epsilon))))
        scale = emit(R.divide(relax.const(np.float32(1)), emit(root)))
        return emit(R.multiply(centred, scale)), scale

    def mean(self, values: relax.Expr) -> relax.Expr:
        """The mean over the dimensions of the statistics."""
        return R.mean(values, list(self.axes), keepdims=True)

    def gradient(self, normal: relax.Expr, scale: relax.Expr, weighted: relax.Expr) -> relax.Expr:
        """`dx = scale * (g - mean(g) - x' * mean(g * x'))`, of the gradient g of x' (`weighted`).

        Without the mean taken off, g's is not either.
        """
        emit = self.builder.emit
        along = emit(R.multiply(normal, emit(self.mean(emit(R.multiply(weighted, normal))))))
        rest = emit(R.subtract(weighted, along))
        if self.centred:
            rest = emit(R.subtract(rest, emit(self.mean(weighted))))
        return emit(R.multiply(rest, scale))


def batch_norm(
    result: relax.Var, call: relax.Call, grad: relax.Expr, builder: relax.BlockBuilder
) -> list[relax.Expr]:
    """Batch normalisation over batch statistics, which the forward pass kept.

    Running statistics get no gradient.
    """
    data, gamma, _beta, *running = call.args
    statistics = [builder.emit(relax.TupleGetItem(result, slot)) for slot in (3, 4)]
    found = builder.emit(batch_norm_backward(_first(grad), data, gamma, *statistics))
    return [*(relax.TupleGetItem(found, slot) for slot in range(3)), *map(no_grad, running)]


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
    """Layer normalisation over the last dimensions (Ba, Kiros and Hinton, 2016)."""
    data, gamma, _beta = call.args
    axes = _axes(call, data)
    emit = builder.emit
    normed = Normal(builder, data, axes, float(call.attrs.epsilon))
    normal, scale = normed.values()
    data_grad = normed.gradient(normal, scale, emit(R.multiply(grad, gamma)))
    others = [axis for axis in range(len(data.ty.shape)) if axis not in axes]
    return [
        data_grad,
        emit(R.sum(emit(R.multiply(grad, normal)), others)),
        emit(R.sum(grad, others)),
    ]


def rms_norm(
    _: relax.Var, call: relax.Call, grad: relax.Expr, builder: relax.BlockBuilder
) -> list[relax.Expr]:
    """Root-mean-square normalisation over the last dimensions (Zhang and Sennrich, 2019)."""
    data, gamma = call.args
    axes = _axes(call, data)
    emit = builder.emit
    normed = Normal(builder, data, axes, float(call.attrs.epsilon), centred=False)
    normal, scale = normed.values()
    data_grad = normed.gradient(normal, scale, emit(R.multiply(grad, gamma)))
    others = [axis for axis in range(len(data.ty.shape)) if axis not in axes]
    return [data_grad, emit(R.sum(emit(R.multiply(grad, normal)), others))]


def group_norm(
    _: relax.Var, call: relax.Call, grad: relax.Expr, builder: relax.BlockBuilder
) -> list[relax.Expr]:
    """Group normalisation (Wu and He, 2018): statistics of each sample and group of channels.

    The tensor is viewed as `[samples, groups, channels of a group, elements]`.
    """
    data, gamma, _beta = call.args
    batch, channels, *sizes = (int(size) for size in data.ty.shape)
    groups = int(call.attrs.num_groups)
    view = (batch, groups, channels // groups, math.prod(sizes))
    emit = builder.emit
    out_grad = emit(R.reshape(grad, view))
    normed = Normal(builder, emit(R.reshape(data, view)), (2, 3), float(call.attrs.epsilon))
    normal, scale = normed.values()
    factor = emit(R.reshape(gamma, (1, *view[1:3], 1)))
    data_grad = normed.gradient(normal, scale, emit(R.multiply(out_grad, factor)))
    gamma_grad = emit(R.sum(emit(R.multiply(out_grad, normal)), [0, 3]))
    return [
        emit(R.reshape(data_grad, (batch, channels, *sizes))),
        emit(R.reshape(gamma_grad, (channels,))),
        emit(R.reshape(emit(R.sum(out_grad, [0, 3])), (channels,))),
    ]


def _axes(call: relax.Call, data: relax.Expr) -> list[int]:
    return [int(axis) % len(data.ty.shape) for axis in call.attrs.axes]


def _first(grad: relax.Expr) -> relax.Expr:
    """The adjoint of the first result; the statistics are no part of the loss."""
    return grad.fields[0] if isinstance(grad, relax.Tuple) else relax.TupleGetItem(grad, 0)


RULES: dict[str, Rule] = {
    BATCH_NORM: batch_norm,
    "relax.nn.batch_norm": still_batch_norm,
    "relax.nn.group_norm": group_norm,
    "relax.nn.layer_norm": layer_norm,
    "relax.nn.rms_norm": rms_norm,
}
