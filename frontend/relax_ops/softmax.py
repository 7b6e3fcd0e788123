"""The gradient of the softmax over the last dimension, or of its logarithm, as one operator."""

from odtc.core.ir.kernel_marks import SOFTMAX_BACKWARD
from odtc.frontend.relax_ops.declare import declare

# Of the adjoint and the result; with the attributes axis and log.
softmax_backward = declare(SOFTMAX_BACKWARD, lambda call: call.args[0].ty)
