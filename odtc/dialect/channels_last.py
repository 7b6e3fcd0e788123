"""Which operators of our own can run with channels last: see `passes/layout/forms.py`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import relax

# Dimensions of images.
IMAGE = 4
# Images are of these: values, masks of comparisons, and numbers of what a pooling chose.
_IMAGES = ("float32", "bool", "uint8")
# Below this many channels a vector is not full.
FEW = 16
# Taps of a depthwise convolution whose sums are registers, and of a pooling, which are unrolled.
_MOST_TAPS, _MOST_POOLED = 9, 25


@dataclass(frozen=True)
class ChannelsLast:
    """How an operator runs with channels last.

    The call says so by its attribute `layout`, if the operator has one.

    Attributes:
        images: places of the images among its arguments.
        condition: whether a call can.
        makes_images: whether images that it makes are such, or are gradients of weights.
    """

    images: tuple[int, ...]
    condition: Callable[[relax.Call], bool]
    makes_images: bool = True


def ints(values: Sequence[Any]) -> list[int]:
    """Numbers of an attribute, or of a shape."""
    return [int(value) for value in values]


def shape_of(expression: relax.Expr) -> list[int]:
    """The shape of a tensor."""
    return ints(expression.ty.shape)


def is_image(expression: relax.Expr) -> bool:
    """Whether an expression is a batch of images, or says something of each element of one."""
    type_ = expression.ty
    is_tensor = isinstance(type_, relax.TensorType)
    return is_tensor and type_.ndim == IMAGE and str(type_.dtype) in _IMAGES


def is_of_images(call: relax.Call) -> bool:
    """Whether a call reads images with channels enough."""
    return is_image(call.args[0]) and shape_of(call.args[0])[1] >= FEW


def is_pool(call: relax.Call) -> bool:
    """Whether a pooling of images has a small window."""
    rows, columns = ints(call.attrs["pool_size"])
    return is_of_images(call) and rows * columns <= _MOST_POOLED


def is_depthwise(weight: Sequence[int], groups: int) -> bool:
    """Whether a convolution is of each channel, and the channels are enough."""
    is_small = weight[2] * weight[3] <= _MOST_TAPS
    return weight[1] == 1 and weight[0] == groups >= FEW and is_small
