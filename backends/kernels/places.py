"""Where the elements of a tensor lie, and reading them."""

import math
from collections.abc import Sequence

from tvm import ir, tirx


def index(value: ir.Expr | int) -> ir.Expr:
    """A constant index as an expression."""
    return tirx.const(value, "int32") if isinstance(value, int) else value


def unflatten(flat: ir.Expr, sizes: Sequence[int]) -> list[ir.Expr]:
    """Indices of an element, outermost first, from its position among all of them."""
    strides = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]

    def at(axis: int) -> ir.Expr:
        if sizes[axis] == 1:
            return index(0)
        inner = flat if axis == 0 else flat % strides[axis - 1]
        return inner if strides[axis] == 1 else inner // strides[axis]

    return [at(axis) for axis in range(len(sizes))]


def load(buffer: tirx.Buffer, at: Sequence[ir.Expr]) -> ir.Expr:
    """An element, or a vector of them, as float32, whatever it is stored in."""
    value = tirx.BufferLoad(buffer, list(at))
    if str(buffer.dtype) == "float32":
        return value
    lanes = max((each.lanes for each in at if isinstance(each, tirx.Ramp)), default=1)
    return value.astype("float32" if lanes == 1 else f"float32x{lanes}")
