"""Relax's calls of operators on images that have their channels last.

Each function makes the call from the one with channels second, and from what it reads now.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.core.ir.layouts import LAST, permuted
from odtc.dialect.channels_last import ints, shape_of
from odtc.dialect.images.copies import concat_last
from odtc.dialect.table import OPERATORS

_CHANNELS = 3
Last = Callable[[relax.Call, Sequence[relax.Expr]], relax.Expr]


def numbers(expression: relax.Expr) -> list[int]:
    """The numbers of a tuple of them."""
    return [int(getattr(each, "value", each)) for each in expression.fields]


def _convolution(operator: Callable[..., relax.Call], **layouts: str) -> Last:
    def last(call: relax.Call, read: Sequence[relax.Expr]) -> relax.Expr:
        attrs = call.attrs
        options: dict[str, Any] = {
            name: ints(getattr(attrs, name)) for name in ("strides", "padding", "dilation")
        }
        if operator is R.nn.conv2d_transpose:
            options["output_padding"] = ints(attrs.output_padding)
        return operator(*read, **options, groups=int(attrs.groups), **layouts)

    return last


convolution = _convolution(R.nn.conv2d, data_layout=LAST, kernel_layout="OIHW", out_layout=LAST)
data_gradient = _convolution(
    R.nn.conv2d_transpose, data_layout=LAST, kernel_layout="IOHW", out_layout=LAST
)
# Samples and channels change places: the sum is over samples and pixels.
weight_gradient = _convolution(
    R.nn.conv2d, data_layout="CHWN", kernel_layout="IHWO", out_layout="CNHW"
)


def with_layout(call: relax.Call, read: Sequence[relax.Expr]) -> relax.Expr:
    """One of our own operators."""
    attrs = dict(call.attrs.items()) if call.attrs else {}
    if "shape" in attrs:
        attrs["shape"] = list(permuted(ints(attrs["shape"]), LAST))
    return OPERATORS[call.op.name](*read, **attrs, layout=LAST)


def as_it_is(call: relax.Call, read: Sequence[relax.Expr]) -> relax.Expr:
    """An operator that is independent of layouts."""
    return relax.Call(call.op, list(read), call.attrs)


def _pooling(operator: Callable[..., relax.Call]) -> Last:
    def last(call: relax.Call, read: Sequence[relax.Expr]) -> relax.Expr:
        attrs = call.attrs
        steps = (ints(getattr(attrs, n)) for n in ("pool_size", "strides", "padding", "dilation"))
        flags = bool(attrs.ceil_mode), bool(attrs.count_include_pad)
        return operator(*read, *steps, *flags, LAST)

    return last


avg_pool = _pooling(R.nn.avg_pool2d)
avg_pool_gradient = _pooling(R.grad.avg_pool2d_backward)


def concat(_: relax.Call, read: Sequence[relax.Expr]) -> relax.Expr:
    """A concat of channels."""
    return concat_last(*read)


def split(call: relax.Call, read: Sequence[relax.Expr]) -> relax.Expr:
    """A split of channels."""
    ends = accumulate(int(part.shape[1]) for part in call.ty.fields)
    return R.split(read[0], list(ends)[:-1], _CHANNELS)


def strided_slice(call: relax.Call, read: Sequence[relax.Expr]) -> relax.Expr:
    """A slice of channels."""
    _, begin, end, *_ = (numbers(each) for each in call.args[1:])
    return R.strided_slice(read[0], [_CHANNELS], begin, end)


def mean(call: relax.Call, read: Sequence[relax.Expr]) -> relax.Expr:
    """The mean of each channel of an image."""
    return R.mean(read[0], [1, 2], bool(call.attrs.keepdims))


def to_shape(operator: Callable[[relax.Expr, Sequence[int]], relax.Expr]) -> Last:
    """An operator that broadcasts images, or sums them up, to a shape."""
    return lambda call, read: operator(read[0], permuted(shape_of(call), LAST))
