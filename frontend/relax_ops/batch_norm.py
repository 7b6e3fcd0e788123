"""Batch normalisation in training: what the backward pass needs of the statistics is a result."""

from tvm import relax

from odtc.core.ir.kernel_marks import BATCH_NORM, BATCH_NORM_BACKWARD
from odtc.frontend.relax_ops.declare import declare


def _forward(call: relax.Call) -> relax.Type:
    """The normalised data; new mean and variance; the batch's mean, and one over its deviation."""
    data, gamma, *_ = (argument.ty for argument in call.args)
    return relax.TupleType([data, *[gamma] * 4])


def _backward(call: relax.Call) -> relax.Type:
    """The gradients of the data, the scale and the shift."""
    grad, _, gamma, *_ = (argument.ty for argument in call.args)
    return relax.TupleType([grad, gamma, gamma])


# Of data, scale, shift, running mean and variance; with the attributes epsilon, momentum, and
# activation, the name of an operator that is applied after it, or nothing.
batch_norm = declare(BATCH_NORM, _forward)
# Of the adjoint, data, scale, and the last two results.
batch_norm_backward = declare(BATCH_NORM_BACKWARD, _backward)
