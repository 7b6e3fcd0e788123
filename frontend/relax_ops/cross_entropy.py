"""Cross-entropy of rows of logits and its derivative, as operators that store no probability."""

from tvm import relax

from odtc.core.ir.kernel_marks import CROSS_ENTROPY, CROSS_ENTROPY_SLOPE
from odtc.frontend.relax_ops.declare import declare


def _forward(call: relax.Call) -> relax.Type:
    """Three numbers of each row."""
    numbers = relax.TensorType((call.args[0].ty.shape[0],), "float32")
    return relax.TupleType([numbers] * 3)


# Of logits [rows, classes] and class numbers int32[rows]: the logarithm of the label's probability,
# zero where there is no such class; the largest logit; and the logarithm of the sum of powers of
# the differences to that.
cross_entropy = declare(CROSS_ENTROPY, _forward)
# Of the logits, the class numbers, the last two results, and a factor for each row: the factor
# times the difference of probabilities and label.
cross_entropy_slope = declare(CROSS_ENTROPY_SLOPE, lambda call: call.args[0].ty)
