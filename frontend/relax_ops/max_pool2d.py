"""Max pooling in training: which element of each window was chosen is a result.

Its gradient reads these numbers of a byte each, not the pooled tensor. A rectifier may be a part of
the pooling: then a window without a positive element chooses none.
"""

import math

from tvm import relax

from odtc.core.ir.chosen import chosen_dtype
from odtc.core.ir.kernel_marks import MAX_POOL, MAX_POOL_BACKWARD
from odtc.core.ir.layouts import LAST, SECOND, permuted
from odtc.core.ir.relax_calls import layout_of
from odtc.frontend.relax_ops.declare import declare


def _forward(call: relax.Call) -> relax.Type:
    """The largest elements, and their numbers in their windows."""
    attrs, data = call.attrs, call.args[0].ty
    is_last = layout_of(call) == LAST
    given = [int(size) for size in data.shape]
    samples, channels, *image = permuted(given, SECOND) if is_last else given
    dtype = chosen_dtype(math.prod(int(size) for size in attrs["pool_size"]))
    shape = (samples, channels, *(_steps(attrs, axis, size) for axis, size in enumerate(image)))
    shape = permuted(shape, LAST) if is_last else shape
    return relax.TupleType([relax.TensorType(shape, data.dtype), relax.TensorType(shape, dtype)])


def _steps(attrs, axis: int, size: int) -> int:
    """How many windows there are along an axis of the image."""
    kernel, stride, dilation, before, behind = (
        int(each)
        for each in (
            attrs["pool_size"][axis],
            attrs["strides"][axis],
            attrs["dilation"][axis],
            attrs["padding"][axis],
            attrs["padding"][axis + 2],
        )
    )
    return (size + before + behind - (kernel - 1) * dilation - 1) // stride + 1


def _backward(call: relax.Call) -> relax.Type:
    """The gradient of the data."""
    return relax.TensorType(list(call.attrs["shape"]), call.args[0].ty.dtype)


# Of the data; with the attributes pool_size, strides, padding and dilation, as of Relax's own
# operator, and `rectifies`, whether what is not positive becomes zero; and `layout`, where that is
# not NCHW.
max_pool2d = declare(MAX_POOL, _forward)
# Of the adjoint and the numbers; with the same attributes but `rectifies`, and the data's shape.
max_pool2d_backward = declare(MAX_POOL_BACKWARD, _backward)
