"""Dropout: an operator of our own, whose mask follows from the step.

In the imported forward function its step is 0. A training step gives it its own; evaluation leaves
it out.
"""

import numpy as np
from tvm import relax

from odtc.core.ir.relax_calls import operator_of
from odtc.dialect.draw import dropout as operator


def dropout(data: relax.Expr, ratio: float, stream: int, seed: int) -> relax.Call:
    """Zero with probability `ratio`, else `data / (1 - ratio)`.

    Args:
        data: a float32 tensor.
        ratio: in [0, 1).
        stream: number of the node; each has a mask of its own.
        seed: of all masks, below 2**63.
    """
    step = relax.const(np.int32(0))
    return operator.dropout(data, step, ratio=ratio, stream=stream, seed=seed)


def is_dropout(binding: relax.Binding) -> bool:
    """Whether a binding calls the operator."""
    return operator_of(binding.value) == operator.dropout.name
