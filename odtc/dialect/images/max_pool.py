"""Max pooling in training: which element of each window was chosen is a result.

Its gradient reads these numbers of a byte each, not the pooled tensor. A rectifier may be a part of
the pooling: then a window without a positive element chooses none.
"""

import math
from dataclasses import dataclass

import numpy as np
from tvm import relax

from odtc.core.ir.layouts import LAST, SECOND, permuted
from odtc.dialect.attributes import Ints
from odtc.dialect.channels_last import ChannelsLast, is_pool
from odtc.dialect.operator import RelaxOperator

_TYPES = ("uint8", "uint16", "int32")
_WINDOW = ("pool_size", "strides", "padding", "dilation")


@dataclass(frozen=True)
class Window:
    """How a window walks over images, as of Relax's own operator.

    Attributes:
        pool_size: rows and columns of the window.
        strides: steps of the window.
        padding: in front of rows and columns, and behind them; never chosen.
        dilation: steps inside the window.
    """

    pool_size: Ints
    strides: Ints
    padding: Ints
    dilation: Ints


@dataclass(frozen=True)
class Pooling(Window):
    """The same, with what is pooled.

    Attributes:
        rectifies: whether what is not positive becomes zero.
        layout: of the images.
    """

    rectifies: bool
    layout: str = SECOND


@dataclass(frozen=True)
class PoolingGradient(Window):
    """The same, with what the gradient is of.

    Attributes:
        shape: of the data that was pooled.
        layout: of the images.
    """

    shape: Ints
    layout: str = SECOND


def chosen_dtype(taps: int) -> str:
    """The smallest type that holds the numbers 0 to `taps`, of which the last one is none.

    The elements of a window are counted row by row, those in the padding too.
    """
    return next(dtype for dtype in _TYPES if taps <= np.iinfo(dtype).max)


def _forward(call: relax.Call) -> relax.Type:
    """The largest elements, and their numbers in their windows."""
    pooling, data = max_pool2d.read(call), call.args[0].ty
    is_last = pooling.layout == LAST
    given = [int(size) for size in data.shape]
    samples, channels, *image = permuted(given, SECOND) if is_last else given
    dtype = chosen_dtype(math.prod(pooling.pool_size))
    shape = (samples, channels, *(_steps(pooling, axis, size) for axis, size in enumerate(image)))
    shape = permuted(shape, LAST) if is_last else shape
    return relax.TupleType([relax.TensorType(shape, data.dtype), relax.TensorType(shape, dtype)])


def _steps(window: Window, axis: int, size: int) -> int:
    """How many windows there are along an axis of the image."""
    reach = (window.pool_size[axis] - 1) * window.dilation[axis] + 1
    padded = size + window.padding[axis] + window.padding[axis + 2]
    return (padded - reach) // window.strides[axis] + 1


def _gradient(
    result: relax.Var, call: relax.Call, grad: relax.Expr, builder: relax.BlockBuilder
) -> list[relax.Expr]:
    """Each adjoint goes to the element that was chosen."""
    adjoint = grad.fields[0] if isinstance(grad, relax.Tuple) else relax.TupleGetItem(grad, 0)
    chosen = builder.emit(relax.TupleGetItem(result, 1))
    window = {name: call.attrs[name] for name in _WINDOW}
    shape = [int(size) for size in call.args[0].ty.shape]
    return [max_pool2d_backward(builder.emit(adjoint), chosen, shape=shape, **window)]


def _backward(call: relax.Call) -> relax.Type:
    """The gradient of the data."""
    return relax.TensorType(max_pool2d_backward.read(call).shape, call.args[0].ty.dtype)


# Of the data.
max_pool2d = RelaxOperator(
    name="odtc.max_pool2d",
    attributes=Pooling,
    infer=_forward,
    gradient=_gradient,
    channels_last=ChannelsLast((0,), is_pool),
)
# Of the adjoint and the numbers.
max_pool2d_backward = RelaxOperator(
    name="odtc.max_pool2d_backward",
    attributes=PoolingGradient,
    infer=_backward,
    gradient=None,
    channels_last=ChannelsLast((0, 1), is_pool),
)
