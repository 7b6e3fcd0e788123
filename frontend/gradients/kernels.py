"""Gradients of calls of kernels that bring their own rule, by the name that the call gives."""

from collections.abc import Callable

from tvm import relax

from odtc.frontend.axis_map import AXIS_MAP, adjoint_of

# From the block builder, the call and the adjoint of its result to one adjoint per operand.
KernelRule = Callable[[relax.BlockBuilder, relax.Call, relax.Expr], list[relax.Expr]]

KERNEL_RULES: dict[str, KernelRule] = {
    AXIS_MAP: adjoint_of,
}
