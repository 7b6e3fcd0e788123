"""Kernels read operands that are stored in half precision as they lie."""

from typing import TypeGuard

from tvm import relax, te


def stored(builder: relax.BlockBuilder, expression: relax.Expr) -> relax.Expr:
    """The tensor to read: the half-precision one behind a cast to float32, or the tensor itself."""
    source = builder.lookup_binding(expression) if isinstance(expression, relax.Var) else None
    return source.args[0] if is_widening(source) else expression


def is_widening(expression: relax.Expr | None) -> TypeGuard[relax.Call]:
    """Whether the expression casts a half-precision tensor to float32."""
    if (
        not isinstance(expression, relax.Call)
        or getattr(expression.op, "name", "") != "relax.astype"
    ):
        return False
    return expression.args[0].ty.dtype == "float16" and expression.attrs.dtype == "float32"


def shape_of(expression: relax.Expr) -> list[int]:
    """Sizes of a tensor's dimensions."""
    return [int(size) for size in expression.ty.shape]


def placeholder(expression: relax.Expr, name: str) -> te.Tensor:
    """A kernel's argument for a tensor, in the dtype in which that is stored."""
    return te.placeholder(shape_of(expression), str(expression.ty.dtype), name)
