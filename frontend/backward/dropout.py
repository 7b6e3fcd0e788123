"""Dropout: an operator of our own, whose mask follows from the step.

In the imported forward function its step is 0. A training step gives it its own; evaluation leaves
it out.
"""

from functools import cache

import numpy as np
import tvm
from tvm import ir, relax

from odtc.core.ir.kernel_marks import DROPOUT
from odtc.core.ir.relax_calls import operator_of


@cache
def register_dropout() -> None:
    """Adds the operator to TVM's registry, once in a process."""
    tvm.ir.register_op_attr(DROPOUT, "FInferType", lambda call, _: call.args[0].ty)
    tvm.ir.register_op_attr(DROPOUT, "FPurity", True)


def dropout(data: relax.Expr, ratio: float, stream: int, seed: int) -> relax.Call:
    """Zero with probability `ratio`, else `data / (1 - ratio)`.

    Args:
        data: a float32 tensor.
        ratio: in [0, 1).
        stream: number of the node; each has a mask of its own.
        seed: of all masks, below 2**63.
    """
    register_dropout()
    attrs = ir.make_node("ir.DictAttrs", ratio=ratio, stream=stream, seed=seed)
    return relax.Call(ir.Op.get(DROPOUT), [data, relax.const(np.int32(0))], attrs)


def is_dropout(binding: relax.Binding) -> bool:
    """Whether a binding calls the operator."""
    return operator_of(binding.value) == DROPOUT
