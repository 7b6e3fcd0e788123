"""Gradients of convolutions, and of transposed convolutions, which swap the two.

TVM's rule for 2-D convolutions forgets the dilation, and there is none for the other forms.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.dialect.images.grouped_weight_gradient import grouped_weight_gradient
from odtc.dialect.rule import Rule

_SPATIAL = {4: "HW", 5: "DHW"}
_CONV = {4: R.nn.conv2d, 5: R.nn.conv3d}
_CONV_TRANSPOSE = {4: R.nn.conv2d_transpose, 5: R.nn.conv3d_transpose}


@dataclass(frozen=True)
class Geometry:
    """A convolution from an image to an output, whichever of the two an operator computes.

    Attributes:
        window: sizes of the window, per axis.
        stride: steps of the window.
        dilation: steps inside the window.
        begin: zeros in front of the image.
        end: zeros after it, as many as the last window reaches; negative where it stops short.
        rest: elements of the image, with all of its padding, after the last window.
        groups: into how many the channels are cut.
    """

    window: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    begin: tuple[int, ...]
    end: tuple[int, ...]
    rest: tuple[int, ...]
    groups: int


def conv(
    _: relax.Var, call: relax.Call, grad: relax.Expr, builder: relax.BlockBuilder
) -> list[relax.Expr]:
    """The transposed convolution of dy by w, and the sum over dy of the windows that it read."""
    data, weight = call.args
    geometry = _geometry(call, image=data, weight=weight, output=grad)
    return [
        _transposed(grad, weight, geometry),
        _weight_gradient(data, grad, geometry, builder),
    ]


def conv_transpose(
    _: relax.Var, call: relax.Call, grad: relax.Expr, builder: relax.BlockBuilder
) -> list[relax.Expr]:
    """A transposed convolution is the data gradient of a convolution from y's shape to x's."""
    data, weight = call.args
    geometry = _geometry(call, image=grad, weight=weight, output=data)
    spatial = _SPATIAL[len(data.ty.shape)]
    forward = _CONV[len(data.ty.shape)](
        grad,
        weight,
        strides=list(geometry.stride),
        padding=[*geometry.begin, *geometry.end],
        dilation=list(geometry.dilation),
        groups=geometry.groups,
        data_layout="NC" + spatial,
        kernel_layout="OI" + spatial,
    )
    return [forward, _weight_gradient(grad, data, geometry, builder)]


def _geometry(
    call: relax.Call, image: relax.Expr, weight: relax.Expr, output: relax.Expr
) -> Geometry:
    attrs = call.attrs
    rank = len(image.ty.shape) - 2
    stride, dilation = _ints(attrs.strides), _ints(attrs.dilation)
    begin, end = _ints(attrs.padding)[:rank], _ints(attrs.padding)[rank:]
    sizes = [_ints(each.ty.shape)[2:] for each in (image, weight, output)]
    rest = tuple(
        image_size + before + after - ((count - 1) * step + (taps - 1) * gap + 1)
        for image_size, taps, count, step, gap, before, after in zip(
            *sizes, stride, dilation, begin, end, strict=True
        )
    )
    reached = tuple(after - unread for after, unread in zip(end, rest, strict=True))
    return Geometry(sizes[1], stride, dilation, begin, reached, rest, int(attrs.groups))


def _transposed(grad: relax.Expr, weight: relax.Expr, geometry: Geometry) -> relax.Expr:
    """The gradient of the image: elements that no window reads get zero."""
    spatial = _SPATIAL[len(grad.ty.shape)]
    padding = [after + rest for after, rest in zip(geometry.end, geometry.rest, strict=True)]
    return _CONV_TRANSPOSE[len(grad.ty.shape)](
        grad,
        weight,
        strides=list(geometry.stride),
        padding=[*geometry.begin, *padding],
        output_padding=list(geometry.rest),
        dilation=list(geometry.dilation),
        groups=geometry.groups,
        data_layout="NC" + spatial,
        kernel_layout="IO" + spatial,
    )


def _weight_gradient(
    image: relax.Expr, grad: relax.Expr, geometry: Geometry, builder: relax.BlockBuilder
) -> relax.Expr:
    """A convolution of the image by the output's gradient, samples and channels swapped.

    Its window walks in steps of the dilation, and is stretched by the stride.
    """
    groups = geometry.groups
    if groups != 1 and len(geometry.window) == 2:
        return grouped_weight_gradient(
            image,
            grad,
            groups=groups,
            window=list(geometry.window),
            strides=list(geometry.stride),
            padding=list(geometry.begin),
            dilation=list(geometry.dilation),
        )
    if groups != 1:
        batch, channels, *sizes = _ints(image.ty.shape)
        split = builder.emit(R.reshape(image, (batch, groups, channels // groups, *sizes)))
        order = [1, 0, *range(2, len(sizes) + 3)]
        moved = builder.emit(R.permute_dims(split, order))
        image = builder.emit(R.reshape(moved, (groups * batch, channels // groups, *sizes)))
    spatial = _SPATIAL[len(grad.ty.shape)]
    return _CONV[len(grad.ty.shape)](
        image,
        grad,
        strides=list(geometry.dilation),
        padding=[*geometry.begin, *geometry.end],
        dilation=list(geometry.stride),
        groups=groups,
        data_layout="CN" + spatial,
        kernel_layout="IO" + spatial,
        out_layout="CN" + spatial,
    )


def _ints(values: Sequence) -> tuple[int, ...]:
    return tuple(int(value) for value in values)


RULES: dict[str, Rule] = {
    "relax.nn.conv2d": conv,
    "relax.nn.conv3d": conv,
    "relax.nn.conv2d_transpose": conv_transpose,
    "relax.nn.conv3d_transpose": conv_transpose,
}
