"""Attention and its gradient: neither keeps the matrix of its probabilities."""

from dataclasses import dataclass

from tvm import relax
from tvm.relax.op.grad import no_grad

from odtc.dialect.attributes import Flags
from odtc.dialect.operator import RelaxOperator


@dataclass(frozen=True)
class Scores:
    """How attention is computed.

    Attributes:
        inner: of queries, keys, values and the result, whether heads lie inside of the steps, as
            `[batch, steps, heads, elements]`, else `[batch, heads, steps, elements]`.
        scale: of the products of queries and keys.
        replaces: whether what is not zero in the mask stands in place of the score.
        safe: whether a query whose keys are all masked gives zeros, not NaN.
    """

    inner: Flags
    scale: float
    replaces: bool
    safe: bool


def _forward(call: relax.Call) -> relax.Type:
    """The result, and of each query its largest score and one over the sum of the powers."""
    q, _, v = (argument.ty for argument in call.args[:3])
    of_q, *_, of_out = attention.read(call).inner
    batch, one, other, _ = q.shape
    heads, steps = (other, one) if of_q else (one, other)
    middle = (steps, heads) if of_out else (heads, steps)
    numbers = relax.TensorType((batch, heads, steps), "float32")
    result = relax.TensorType((batch, *middle, v.shape[3]), "float32")
    return relax.TupleType([result, numbers, numbers])


def _backward(call: relax.Call) -> relax.Type:
    """The adjoints of queries, keys and values."""
    return relax.TupleType([argument.ty for argument in call.args[1:4]])


def _gradient(
    result: relax.Var, call: relax.Call, grad: relax.Expr, builder: relax.BlockBuilder
) -> list[relax.Expr]:
    """Of queries, keys and values; a mask has none.

    What belongs to a query alone is read by nothing else.
    """
    dy = grad.fields[0] if isinstance(grad, relax.Tuple) else _field(builder, grad, 0)
    kept = [_field(builder, result, slot) for slot in range(3)]
    attrs = {name: call.attrs[name] for name in ("inner", "scale", "replaces", "safe")}
    q, k, v, *mask = call.args
    found = builder.emit(attention_backward(dy, q, k, v, *kept, *mask, **attrs))
    return [*(_field(builder, found, slot) for slot in range(3)), *map(no_grad, mask)]


def _field(builder: relax.BlockBuilder, results: relax.Expr, slot: int) -> relax.Var:
    return builder.emit(relax.TupleGetItem(results, slot))


# Of queries, keys and values, and maybe a mask that is added to the scores `[batch, heads, queries,
# keys]`, whose sizes of one are broadcast.
attention = RelaxOperator(
    name="odtc.attention",
    attributes=Scores,
    infer=_forward,
    gradient=_gradient,
    large=range(1),
)
# Of the result's adjoint, queries, keys, values, the three results, and the mask.
attention_backward = RelaxOperator(
    name="odtc.attention_backward", attributes=Scores, infer=_backward, gradient=None
)
