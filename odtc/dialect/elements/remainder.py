"""The remainder of floats, with the sign of the dividend.

TVM has one too, but its kernel cannot be vectorised and then does not compile.
"""

from tvm import relax, te, tirx, topi
from tvm.relax import op as R  # noqa: N812

from odtc.dialect.adjoints import fitted
from odtc.dialect.attributes import NoAttributes
from odtc.dialect.operator import RelaxOperator

# The C function: it is exact, where a division would be rounded.
_FUNCTIONS = {"float32": "fmodf", "float64": "fmod"}


def _kernel(left: te.Tensor, right: te.Tensor) -> te.Tensor:
    """The remainder of the first operand; they broadcast."""
    shape = topi.add(left, right).shape
    first, second = topi.broadcast_to(left, shape), topi.broadcast_to(right, shape)
    dtype = str(left.dtype)
    return te.compute(
        shape,
        lambda *i: tirx.call_pure_extern(dtype, _FUNCTIONS[dtype], first(*i), second(*i)),
        name="remainder",
    )


def _gradient(
    _: relax.Var, call: relax.Call, grad: relax.Expr, builder: relax.BlockBuilder
) -> list[relax.Expr]:
    """Of `a - b * trunc(a / b)`; the quotient is a step."""
    left, right = call.args
    quotient = R.trunc(R.divide(left, right))
    return [
        fitted(builder, grad, left),
        fitted(builder, R.negative(R.multiply(grad, quotient)), right),
    ]


def _broadcast(call: relax.Call) -> relax.Type:
    sizes = [[int(size) for size in argument.ty.shape] for argument in call.args]
    rank = max(map(len, sizes))
    padded = [[1] * (rank - len(shape)) + shape for shape in sizes]
    shape = [b if a == 1 else a for a, b in zip(*padded, strict=True)]
    return relax.TensorType(shape, call.args[0].ty.dtype)


# Of the dividend and the divisor.
remainder = RelaxOperator(
    name="odtc.remainder",
    attributes=NoAttributes,
    infer=_broadcast,
    kernel=_kernel,
    arity=2,
    gradient=_gradient,
)
