"""Normalisations as simpler operators: the variance is the mean of squared distances from the mean.

TVM's kernels take it as the mean of squares less the square of the mean, which loses its digits
where the mean is large beside the deviation.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.backends.kernels.operand import shape_of


def normalization_rules() -> dict[str, Callable[[relax.BlockBuilder, relax.Call], relax.Expr]]:
    """Legalisation rules for `relax.transform.LegalizeOps`, by operator."""
    return {
        "relax.nn.group_norm": _group_norm,
        "relax.nn.layer_norm": _layer_norm,
        "relax.nn.rms_norm": _rms_norm,
    }


def _normal(
    builder: relax.BlockBuilder,
    data: relax.Expr,
    axes: Sequence[int],
    epsilon: float,
    *,
    centred: bool = True,
) -> relax.Expr:
    """`(x - mean) / sqrt(var + eps)`, or without the mean taken off."""
    emit = builder.emit
    if centred:
        data = emit(R.subtract(data, emit(R.mean(data, axes, keepdims=True))))
    variance = emit(R.mean(emit(R.multiply(data, data)), axes, keepdims=True))
    root = emit(R.sqrt(emit(R.add(variance, relax.const(np.float32(epsilon))))))
    return emit(R.divide(data, root))


def _layer_norm(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    data, gamma, beta = call.args
    normal = _normal(builder, data, _axes(call), float(call.attrs.epsilon))
    return R.add(builder.emit(R.multiply(normal, gamma)), beta)


def _rms_norm(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    data, gamma = call.args
    epsilon = float(call.attrs.epsilon)
    return R.multiply(_normal(builder, data, _axes(call), epsilon, centred=False), gamma)


def _group_norm(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    data, gamma, beta = call.args
    batch, channels, *sizes = shape_of(data)
    groups = int(call.attrs.num_groups)
    emit = builder.emit
    view = emit(R.reshape(data, (batch, groups, channels // groups, math.prod(sizes))))
    normal = _normal(builder, view, [2, 3], float(call.attrs.epsilon))
    gamma, beta = (emit(R.reshape(each, (1, groups, -1, 1))) for each in (gamma, beta))
    result = emit(R.add(emit(R.multiply(normal, gamma)), beta))
    return R.reshape(result, (batch, channels, *sizes))


def _axes(call: relax.Call) -> list[int]:
    return [int(axis) % len(call.args[0].ty.shape) for axis in call.attrs.axes]
