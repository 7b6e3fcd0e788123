"""Elements of dense tensors by their positions in memory."""

import math
from collections.abc import Sequence

from tvm import ir


def indices_of(position: ir.Expr, shape: Sequence[int]) -> list[ir.Expr]:
    """The indices of an element of a dense tensor."""
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    inner = [
        position if axis == 0 else position % (strides[axis - 1]) for axis in range(len(shape))
    ]
    return [
        index if stride == 1 else index // stride
        for index, stride in zip(inner, strides, strict=True)
    ]
