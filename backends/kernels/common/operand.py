"""Helpers of the rules of our own operators: operands as they are stored, and calls of kernels."""

from tvm import relax, te, tirx

from odtc.core.ir.relax_calls import is_call
from odtc.passes.graph.absorb_transpose import is_widening


def stored(builder: relax.BlockBuilder, expression: relax.Expr) -> relax.Expr:
    """The tensor to read: the half-precision one that is cast to float32, or the tensor itself."""
    source = _bound(builder, expression)
    return source.args[0] if is_widening(source) else expression


def channels_of(builder: relax.BlockBuilder, expression: relax.Expr) -> tuple[relax.Expr, int]:
    """The tensor to read that holds these channels, as it is stored, and the first of them."""
    first = 0
    while is_call(source := _bound(builder, expression), "relax.strided_slice"):
        data, *bounds = source.args
        axes, begins, _, *steps = ([int(field) for field in each.fields] for each in bounds)
        if axes != [1] or any(step != [1] for step in steps):
            break
        first += begins[0]
        expression = data
    return stored(builder, expression), first


def _bound(builder: relax.BlockBuilder, expression: relax.Expr) -> relax.Expr | None:
    return builder.lookup_binding(expression) if isinstance(expression, relax.Var) else None


def shape_of(expression: relax.Expr) -> list[int]:
    """Sizes of a tensor's dimensions."""
    return [int(size) for size in expression.ty.shape]


def placeholder(expression: relax.Expr, name: str) -> te.Tensor:
    """A kernel's argument for a tensor, in the dtype in which that is stored."""
    shape = [tirx.const(size, "int64") for size in shape_of(expression)]
    return te.placeholder(shape, str(expression.ty.dtype), name)


def call_kernel(
    builder: relax.BlockBuilder,
    kernel: tirx.PrimFunc,
    name: str,
    call: relax.Call,
    operands: list[relax.Expr],
) -> relax.Expr:
    """The call of a kernel in place of an operator with several results.

    Args:
        builder: of the module that the kernel is added to.
        kernel: its arguments are the operands, then the results.
        name: of the kernel.
        call: of the operator.
        operands: tensors.
    """
    results = list(call.ty.fields)
    return relax.call_tir(builder.add_func(kernel, name), relax.Tuple(operands), results)
