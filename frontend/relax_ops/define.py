"""Adds an operator to Relax: its type, its kernel and its gradient.

A function that Relax has no operator for could be spelled out in several. But then the gradient
pass differentiates each of them, and the backward pass reads what lies between them: a step would
keep three or four tensors of the size of the input. One operator with one rule keeps one.
"""

from collections.abc import Callable
from typing import Any

import tvm
from tvm import relax, te
from tvm.ir import Op, _ffi_api

from odtc.core.ir.kernel_marks import PATTERN
from odtc.dialect.rule import Rule

# From the tensors and the attributes to the result.
Kernel = Callable[..., te.Tensor]
InferType = Callable[[relax.Call], relax.Type]


def define(
    name: str,
    kernel: Kernel,
    gradient: Rule | None = None,
    infer: InferType | None = None,
    arity: int = 1,
    pattern: int | None = None,
) -> Callable[..., relax.Call]:
    """Registers `odtc.<name>`, and returns the function that calls it: tensors, attributes by name.

    Args:
        name: of the operator, without prefix; TVM knows it for the whole process.
        kernel: computes the result; the attributes are its keyword arguments.
        gradient: the rule; operators of the backward pass have none.
        infer: the type of a call; that of the first argument if it is left out.
        arity: number of tensors.
        pattern: what the kernel may be fused with; found by what it computes if None.
    """
    _ffi_api.RegisterOp(f"odtc.{name}", kernel.__doc__ or name)
    op = Op.get(f"odtc.{name}")
    op.set_num_inputs(arity)
    for slot in range(arity):
        op.add_argument(f"x{slot}", "Tensor", "")

    def legalize(builder: relax.BlockBuilder, call: relax.Call) -> relax.Call:
        return builder.call_te(
            lambda *tensors: kernel(*tensors, **attributes_of(call)),
            *call.args,
            primfunc_name_hint=name,
            primfunc_attrs=None if pattern is None else {PATTERN: pattern},
        )

    infer_type = infer or (lambda call: call.args[0].ty)
    op.set_attr("FInferType", lambda call, _: infer_type(call))
    op.set_attr("FPurity", True)
    op.set_attr("FLegalize", legalize)
    if gradient is not None:
        op.set_attr("FPrimalGradient", gradient)
    return lambda *tensors, **attrs: relax.Call(
        op, list(tensors), tvm.ir.make_node("ir.DictAttrs", **attrs)
    )


def attributes_of(call: relax.Call) -> dict[str, Any]:
    """Attributes of a call of such an operator."""
    return {key: call.attrs[key] for key in call.attrs.keys()}  # noqa: SIM118
