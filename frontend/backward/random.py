"""Random tensors: an operator of our own, whose numbers follow from the step.

In the imported forward function its step is 0, and so it is in evaluation, which draws the same
numbers each time. A training step gives it its own. A mask has the meaning of dropout, and
evaluation has its mean in its place.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np
import tvm
from tvm import ir, relax

from odtc.core.ir.kernel_marks import RANDOM
from odtc.core.ir.relax_calls import operator_of


@cache
def register_random() -> None:
    """Adds the operator to TVM's registry, once in a process."""
    tvm.ir.register_op_attr(RANDOM, "FInferType", lambda call, _: _type(call))
    tvm.ir.register_op_attr(RANDOM, "FPurity", True)


def _type(call: relax.Call) -> relax.TensorType:
    return relax.TensorType([int(size) for size in call.attrs["shape"]], "float32")


def random(shape: Sequence[int], stream: int, seed: int, keep: float = 0.0) -> relax.Call:
    """Uniform numbers in [0, 1), or a mask of zeros and ones.

    Args:
        shape: of the float32 result.
        stream: number of the node; each has numbers of its own.
        seed: of all numbers, below 2**63.
        keep: the share of ones in a mask, in (0, 1]; 0 for numbers.
    """
    register_random()
    attrs = ir.make_node(
        "ir.DictAttrs", shape=list(shape), keep=float(keep), stream=stream, seed=seed
    )
    return relax.Call(ir.Op.get(RANDOM), [relax.const(np.int32(0))], attrs)


def is_random(binding: relax.Binding) -> bool:
    """Whether a binding calls the operator."""
    return operator_of(binding.value) == RANDOM


def without_masks(_: relax.BlockBuilder, binding: relax.Binding) -> relax.Expr | None:
    """A replay rule: outside of training, a mask is its mean."""
    keep = float(binding.value.attrs["keep"]) if is_random(binding) else 0.0
    if not keep:
        return None
    return relax.op.full(binding.var.ty.shape, relax.const(np.float32(keep)), "float32")
