"""Random tensors: an operator of our own, whose numbers follow from the step.

In the imported forward function its step is 0, and so it is in evaluation, which draws the same
numbers each time. A training step gives it its own. A mask has the meaning of dropout, and
evaluation has its mean in its place.
"""

from collections.abc import Sequence

import numpy as np
from tvm import relax

from odtc.core.ir.relax_calls import operator_of
from odtc.dialect.draw import random as operator


def random(shape: Sequence[int], stream: int, seed: int, keep: float = 0.0) -> relax.Call:
    """Uniform numbers in [0, 1), or a mask of zeros and ones.

    Args:
        shape: of the float32 result.
        stream: number of the node; each has numbers of its own.
        seed: of all numbers, below 2**63.
        keep: the share of ones in a mask, in (0, 1]; 0 for numbers.
    """
    numbers = {"shape": list(shape), "keep": float(keep), "stream": stream, "seed": seed}
    return operator.random(relax.const(np.int32(0)), **numbers)


def is_random(binding: relax.Binding) -> bool:
    """Whether a binding calls the operator."""
    return operator_of(binding.value) == operator.random.name


def without_masks(_: relax.BlockBuilder, binding: relax.Binding) -> relax.Expr | None:
    """A replay rule: outside of training, a mask is its mean."""
    keep = operator.random.read(binding.value).keep if is_random(binding) else 0.0
    if not keep:
        return None
    return relax.op.full(binding.var.ty.shape, relax.const(np.float32(keep)), "float32")
