"""Terms of a convolution of any rank, in groups or not, and of its two gradients.

Each is a sum of products, defined here element by element; other modules compute it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import ir, relax, te, tirx

from odtc.backends.kernels.common.operand import placeholder, shape_of
from odtc.backends.kernels.common.places import Readable
from odtc.backends.kernels.convolution.grid import ConvolutionAxis
from odtc.backends.kernels.norm.normalised import Normal, read_operands


@dataclass(frozen=True)
class Groups:
    """Channels that are convolved apart.

    Attributes:
        count: of groups.
        channels: of the image, in a group.
        rows: channels of the output, in a group.
    """

    count: int
    channels: int
    rows: int

    def of_image(self, row: ir.Expr, channel: ir.Expr) -> ir.Expr:
        """The channel of the image that an output's `row` reads as its `channel`."""
        return channel if self.count == 1 else row // self.rows * self.channels + channel

    def of_output(self, channel: ir.Expr, row: ir.Expr) -> ir.Expr:
        """The channel of the output that reads the image's `channel` as the group's `row`."""
        return row if self.count == 1 else channel // self.channels * self.rows + row


@dataclass(frozen=True)
class ChannelsLast:
    """A tensor that is stored with its channels last, read as if they were in front of the others.

    Attributes:
        stored: the tensor.
    """

    stored: Readable

    @property
    def shape(self) -> list[ir.Expr]:
        """The shape as it is read."""
        return channels_second(self.stored.shape)

    def __getitem__(self, index: Sequence[ir.Expr]) -> ir.Expr:
        return self.stored[tuple(channels_last(index))]


# The product at an element of the result, given the operands, the axes, that element and the terms.
Term = Callable[
    [Sequence[Readable], Sequence[ConvolutionAxis], Groups, Sequence[ir.Expr], Sequence[ir.Expr]],
    ir.Expr,
]


def channels_last(of: Sequence[Any]) -> list[Any]:
    """An index or a shape with the second dimension after all others."""
    first, second, *rest = of
    return [first, *rest, second]


def channels_second(of: Sequence[Any]) -> list[Any]:
    """The way back of `channels_last`."""
    first, *rest, last = of
    return [first, last, *rest]


def _forward(
    operands: Sequence[Readable],
    axes: Sequence[ConvolutionAxis],
    groups: Groups,
    at: Sequence[ir.Expr],
    k: Sequence[ir.Expr],
) -> ir.Expr:
    """`y[n, m, o] = sum over c, t of x[n, c, o * stride + t * dilation - pad] * w[m, c, t]`."""
    (x, w), (n, m, *o), (c, *t) = operands, at, k
    return _inside(x, n, groups.of_image(m, c), _positions(axes, o, t)) * _load(w, m, c, *t)


def _data_gradient(
    operands: Sequence[Readable],
    axes: Sequence[ConvolutionAxis],
    groups: Groups,
    at: Sequence[ir.Expr],
    k: Sequence[ir.Expr],
) -> ir.Expr:
    """`dx[n, c, i] = sum over m, t of dy[n, m, (i + pad - t * dilation) / stride] * w[m, c, t]`."""
    (dy, w), (n, c, *i), (m, *t) = operands, at, k
    steps = [a.pad + x - tap * a.dilation for a, x, tap in zip(axes, i, t, strict=True)]
    hits = [step % a.stride == 0 for a, step in zip(axes, steps, strict=True)]
    source = [step // a.stride for a, step in zip(axes, steps, strict=True)]
    row = groups.of_output(c, m)
    return _inside(dy, n, row, source, hits) * _load(w, row, c % groups.channels, *t)


def _weight_gradient(
    operands: Sequence[Readable],
    axes: Sequence[ConvolutionAxis],
    groups: Groups,
    at: Sequence[ir.Expr],
    k: Sequence[ir.Expr],
) -> ir.Expr:
    """`dw[m, c, t] = sum over n, o of x[n, c, o * stride + t * dilation - pad] * dy[n, m, o]`."""
    (x, dy), (m, c, *t), (n, *o) = operands, at, k
    return _inside(x, n, groups.of_image(m, c), _positions(axes, o, t)) * _load(dy, n, m, *o)


# Family -> where image, weight and output are among the two operands and the result, and the term.
_FAMILIES: dict[str, tuple[tuple[int, int, int], Term]] = {
    "convolution": ((0, 1, 2), _forward),
    "data-gradient": ((2, 1, 0), _data_gradient),
    "weight-gradient": ((0, 2, 1), _weight_gradient),
}


@dataclass(frozen=True)
class Convolution:
    """One of the three, of these shapes.

    Attributes:
        family: "convolution", "data-gradient" or "weight-gradient".
        shapes: of the two operands and of the result, channels second.
        strides, dilations, pads: of the convolution forward, by axis; more pads are ignored.
        groups: how many there are.
        last: whether image and output are stored with their channels last.
    """

    family: str
    shapes: Sequence[Sequence[int]]
    strides: Sequence[int]
    dilations: Sequence[int]
    pads: Sequence[int]
    groups: int = 1
    last: bool = False

    def axes(self) -> list[ConvolutionAxis]:
        """The spatial axes, as those of the convolution forward."""
        image, weight, out = self._roles()
        steps = self.strides, self.dilations, self.pads
        sizes = zip(image[2:], weight[2:], *steps, out[2:], strict=False)
        return [ConvolutionAxis(*numbers) for numbers in sizes]

    def sums(
        self, operands: Sequence[relax.Expr], normal: Normal | None = None, **options: object
    ) -> tirx.PrimFunc:
        """The kernel as one block, which says what it computes; options are the block's."""
        tensors = [placeholder(operand, f"arg{i}") for i, operand in enumerate(operands)]
        given = read_operands(normal, tensors)
        read = [ChannelsLast(t) if self._is_last(i) else t for i, t in enumerate(given)]
        term, axes = _FAMILIES[self.family][1], self.axes()
        shape, is_last = self.shapes[-1], self._is_last(len(given))
        image, _, out = self._roles()
        groups = Groups(self.groups, image[1] // self.groups, out[1] // self.groups)
        terms = [
            te.reduce_axis((0, tirx.const(size, "int64")), f"k{i}")
            for i, size in enumerate(self._terms(groups))
        ]
        block = te.compute(
            [tirx.const(size, "int64") for size in (channels_last(shape) if is_last else shape)],
            lambda *at: te.sum(
                term(read, axes, groups, channels_second(at) if is_last else at, terms), axis=terms
            ),
            **options,
        )
        return te.create_prim_func([*tensors, block]).without_attr("global_symbol")

    def _is_last(self, place: int) -> bool:
        """Whether an operand or the result is stored with its channels last."""
        return self.last and place != weight_place(self.family)

    def _terms(self, groups: Groups) -> list[int]:
        """How many terms each sum has, by axis."""
        _, weight, out = self._roles()
        return {
            "convolution": [groups.channels, *weight[2:]],
            "data-gradient": [groups.rows, *weight[2:]],
            "weight-gradient": [out[0], *out[2:]],
        }[self.family]

    def _roles(self) -> list[Sequence[int]]:
        """The shapes of image, weight and output."""
        return [self.shapes[role] for role in _FAMILIES[self.family][0]]


def weight_place(family: str) -> int:
    """Where the weight, or its gradient, is among the two operands and the result."""
    return _FAMILIES[family][0][1]


def shapes_of(call: relax.Call) -> list[Sequence[int]]:
    """The shapes of a call's operands and result."""
    return [*(shape_of(argument) for argument in call.args), shape_of(call)]


def _positions(
    axes: Sequence[ConvolutionAxis], o: Sequence[ir.Expr], t: Sequence[ir.Expr]
) -> list[ir.Expr]:
    """Where in the image the taps of an output read."""
    return [
        position * axis.stride + tap * axis.dilation - axis.pad
        for axis, position, tap in zip(axes, o, t, strict=True)
    ]


def _inside(
    x: Readable,
    n: ir.Expr,
    channel: ir.Expr,
    at: list[ir.Expr],
    conditions: Sequence[ir.Expr] = (),
) -> ir.Expr:
    """`x[n, channel, *at]` where `at` is inside and the conditions hold, else zero."""
    sizes = [int(size) for size in x.shape[2:]]
    bounds = [
        test for axis, size in zip(at, sizes, strict=True) for test in (axis >= 0, axis < size)
    ]
    safe = [tirx.max(0, tirx.min(axis, size - 1)) for axis, size in zip(at, sizes, strict=True)]
    return tirx.if_then_else(
        tirx.all(*bounds, *conditions), _load(x, n, channel, *safe), tirx.const(0, "float32")
    )


def _load(tensor: Readable, *index: ir.Expr) -> ir.Expr:
    """An element as float32, whatever it is stored in."""
    return tensor[index].astype("float32")
