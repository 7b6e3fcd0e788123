"""Attention and its gradient, as operators: neither keeps the matrix of its probabilities."""

from tvm import relax

from odtc.core.ir.kernel_marks import ATTENTION, ATTENTION_BACKWARD
from odtc.frontend.relax_ops.declare import declare


def _forward(call: relax.Call) -> relax.Type:
    """The result, and of each query its largest score and one over the sum of the powers."""
    q, _, v = (argument.ty for argument in call.args[:3])
    of_q, *_, of_out = (bool(each) for each in call.attrs["inner"])
    batch, one, other, _ = q.shape
    heads, steps = (other, one) if of_q else (one, other)
    middle = (steps, heads) if of_out else (heads, steps)
    numbers = relax.TensorType((batch, heads, steps), "float32")
    result = relax.TensorType((batch, *middle, v.shape[3]), "float32")
    return relax.TupleType([result, numbers, numbers])


def _backward(call: relax.Call) -> relax.Type:
    """The adjoints of queries, keys and values."""
    return relax.TupleType([argument.ty for argument in call.args[1:4]])


# Of queries, keys and values, and maybe a mask that is added to the scores `[batch, heads, queries,
# keys]`, whose sizes of one are broadcast. With the attributes
#   inner     of queries, keys, values and the result, whether heads lie inside of the steps, as
#             `[batch, steps, heads, elements]`, else `[batch, heads, steps, elements]`,
#   scale     of the products of queries and keys,
#   replaces  whether what is not zero in the mask stands in place of the score,
#   safe      whether a query whose keys are all masked gives zeros, not NaN.
attention = declare(ATTENTION, _forward)
# Of the result's adjoint, queries, keys, values, the three results, and the mask; attributes as
# above.
attention_backward = declare(ATTENTION_BACKWARD, _backward)
