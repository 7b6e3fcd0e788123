"""Cross-entropy of rows of logits and its derivative, neither of which stores probabilities."""

from tvm import relax

from odtc.dialect.attributes import NoAttributes
from odtc.dialect.operator import RelaxOperator


def _forward(call: relax.Call) -> relax.Type:
    """Three numbers of each row."""
    numbers = relax.TensorType((call.args[0].ty.shape[0],), "float32")
    return relax.TupleType([numbers] * 3)


# Of logits [rows, classes] and class numbers int32[rows]: the logarithm of the label's probability,
# zero where there is no such class; the largest logit; and the logarithm of the sum of powers of
# the differences to that. A loss brings its own derivative: nothing differentiates it.
cross_entropy = RelaxOperator(
    name="odtc.cross_entropy", attributes=NoAttributes, infer=_forward, gradient=None
)
# Of the logits, the class numbers, the last two results, and a factor for each row: the factor
# times the difference of probabilities and label.
cross_entropy_slope = RelaxOperator(
    name="odtc.cross_entropy_slope", attributes=NoAttributes, gradient=None
)
