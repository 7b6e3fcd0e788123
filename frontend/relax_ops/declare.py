"""Adds an operator to Relax whose kernel the backend brings, by the name that both agree on."""

from collections.abc import Callable

import tvm
from tvm import ir, relax

InferType = Callable[[relax.Call], relax.Type]


def declare(name: str, infer: InferType) -> Callable[..., relax.Call]:
    """Registers the operator, and returns the function that calls it: tensors, attributes by name.

    Args:
        name: one of `odtc/core/ir/kernel_marks.py`; TVM knows it for the whole process.
        infer: the type of a call.
    """
    tvm.ir.register_op_attr(name, "FInferType", lambda call, _: infer(call))
    tvm.ir.register_op_attr(name, "FPurity", True)
    return lambda *tensors, **attrs: relax.Call(
        ir.Op.get(name), list(tensors), ir.make_node("ir.DictAttrs", **attrs)
    )
