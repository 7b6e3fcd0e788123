"""The gradient of the weight of a 2-D convolution in groups.

Relax has no convolution that sums over the samples and keeps the groups apart, except for one of
data with samples and channels swapped, which costs a copy.
"""

from dataclasses import dataclass
from typing import Any

from tvm import ir, relax, te, tirx

from odtc.core.ir.layouts import LAST, SECOND
from odtc.dialect.attributes import Ints
from odtc.dialect.channels_last import ChannelsLast, is_depthwise, shape_of
from odtc.dialect.operator import RelaxOperator


@dataclass(frozen=True)
class Geometry:
    """A convolution in groups.

    Attributes:
        groups: into how many the channels are cut.
        window: rows and columns of the weight.
        strides: steps of the window.
        padding: zeros in front of the image.
        dilation: steps inside the window.
        layout: of the images.
    """

    groups: int
    window: Ints
    strides: Ints
    padding: Ints
    dilation: Ints
    layout: str = SECOND


def _kernel(image: te.Tensor, grad: te.Tensor, **attributes: Any) -> te.Tensor:
    """The sum over samples and steps of the output's adjoint times what the window read there."""
    given = Geometry(**attributes)
    groups, window, strides = given.groups, given.window, given.strides
    padding, dilation = given.padding, given.dilation
    samples, channels, *sizes = image.shape
    _, filters, *steps = grad.shape
    width, results = channels // groups, filters // groups
    n = te.reduce_axis((0, samples), "n")
    walk = [te.reduce_axis((0, count), "p") for count in steps]

    def term(o: ir.Expr, i: ir.Expr, *tap: ir.Expr) -> ir.Expr:
        at = [
            p * strides[axis] + tap[axis] * dilation[axis] - padding[axis]
            for axis, p in enumerate(walk)
        ]
        inside = [test for a, size in zip(at, sizes, strict=True) for test in (a >= 0, a < size)]
        read = image(n, o // results * width + i, *at)
        zero = tirx.const(0, image.dtype)
        return te.sum(
            tirx.if_then_else(tirx.all(*inside), read, zero) * grad(n, o, *walk), axis=[n, *walk]
        )

    return te.compute((filters, width, *window), term, "grouped_weight_gradient")


def _infer(call: relax.Call) -> relax.Type:
    image, grad = (argument.ty for argument in call.args)
    given = grouped_weight_gradient.read(call)
    channels = -1 if given.layout == LAST else 1
    width = int(image.shape[channels]) // given.groups
    shape = [int(grad.shape[channels]), width, *given.window]
    return relax.TensorType(shape, image.dtype)


def _is_depthwise(call: relax.Call) -> bool:
    return is_depthwise(shape_of(call), grouped_weight_gradient.read(call).groups)


# Of the image and the output's adjoint.
grouped_weight_gradient = RelaxOperator(
    name="odtc.grouped_weight_gradient",
    attributes=Geometry,
    infer=_infer,
    kernel=_kernel,
    arity=2,
    gradient=None,
    channels_last=ChannelsLast((0, 1), _is_depthwise, makes_images=False),
)
