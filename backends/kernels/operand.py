"""Kernels read operands that are stored in half precision as they lie."""

from tvm import relax, te, tirx

from odtc.passes.absorb_transpose import is_widening


def stored(builder: relax.BlockBuilder, expression: relax.Expr) -> relax.Expr:
    """The tensor to read: the half-precision one behind a cast to float32, or the tensor itself."""
    source = builder.lookup_binding(expression) if isinstance(expression, relax.Var) else None
    return source.args[0] if is_widening(source) else expression


def shape_of(expression: relax.Expr) -> list[int]:
    """Sizes of a tensor's dimensions."""
    return [int(size) for size in expression.ty.shape]


def placeholder(expression: relax.Expr, name: str) -> te.Tensor:
    """A kernel's argument for a tensor, in the dtype in which that is stored."""
    shape = [tirx.const(size, "int64") for size in shape_of(expression)]
    return te.placeholder(shape, str(expression.ty.dtype), name)
