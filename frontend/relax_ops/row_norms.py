"""The gradients of normalisations of rows, each as one operator."""

from tvm import relax

from odtc.core.ir.kernel_marks import GROUP_NORM_BACKWARD, LAYER_NORM_BACKWARD
from odtc.frontend.relax_ops.declare import declare


def _affine(call: relax.Call) -> relax.Type:
    """The gradients of the data, the scale and the shift."""
    grad, _, gamma = (argument.ty for argument in call.args)
    return relax.TupleType([grad, gamma, gamma])


def _layer(call: relax.Call) -> relax.Type:
    """As above; without a shift where no mean is taken off."""
    return _affine(call) if call.attrs["centred"] else relax.TupleType(_affine(call).fields[:2])


# All of the adjoint, the data and the scale. With the attributes epsilon and centred:
layer_norm_backward = declare(LAYER_NORM_BACKWARD, _layer)
# With the attributes epsilon and groups:
group_norm_backward = declare(GROUP_NORM_BACKWARD, _affine)
