"""The loops of a convolution's kernel, and of its gradients'."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import ir, tirx

from odtc.backends.kernels.channels_last import point as point_last
from odtc.backends.kernels.channels_last import window as window_last
from odtc.backends.kernels.channels_last import window_gradient as window_gradient_last
from odtc.backends.kernels.common.places import Readable, index, load, unflatten
from odtc.backends.kernels.convolution.grid import ConvolutionAxis, Walk
from odtc.backends.kernels.convolution.lane_gradient import is_worth_lanes, lane_gradient
from odtc.backends.kernels.convolution.point_product import (
    is_point_product,
    point_data_gradient,
    point_forward,
)
from odtc.backends.kernels.convolution.scattered_gradient import (
    is_mostly_padding,
    scattered_gradient,
)
from odtc.backends.kernels.convolution.shifted_cut import Shape
from odtc.backends.kernels.convolution.shifted_product import Store, staged_product
from odtc.backends.kernels.convolution.staging import Read
from odtc.backends.kernels.convolution.weight_gradient import WORTH_A_COPY, weight_gradient
from odtc.backends.kernels.product.fused import Product
from odtc.backends.kernels.product.panel import ProductSizes, collides
from odtc.backends.kernels.product.tile import Machine
from odtc.backends.kernels.winograd.cut import is_winograd
from odtc.backends.kernels.winograd.product import winograd_product

# Numbers of an axis in the mark of a product.
_NUMBERS = 6
# Channels of an image that are too few for a tile's rows.
_FEW_CHANNELS = 2


@dataclass(frozen=True)
class _Space:
    """The spatial axes, and how tensors are indexed by positions along them.

    Where every output is of one element in its place, a position is one number, whatever the rank:
    rows do not matter.

    Attributes:
        given: the axes as they are.
    """

    given: list[ConvolutionAxis]

    @property
    def is_points(self) -> bool:
        """Whether every output is of one element in its place."""
        return all(axis.is_point for axis in self.given)

    @property
    def positions(self) -> int:
        """Number of outputs."""
        return math.prod(axis.out for axis in self.given)

    @property
    def axes(self) -> list[ConvolutionAxis]:
        """The axes to walk along, at least two."""
        if self.is_points:
            return [ConvolutionAxis.points(1), ConvolutionAxis.points(self.positions)]
        return self.given

    def flat(self, at: Sequence[ir.Expr]) -> list[ir.Expr]:
        """The index of a dense tensor, where the last one may count through all axes."""
        return [*map(index, [0] * (len(self.given) - len(at))), *at] if self.is_points else list(at)

    def position(self, at: Sequence[ir.Expr]) -> list[ir.Expr]:
        """The index by axis."""
        return unflatten(at[-1], [axis.out for axis in self.given]) if self.is_points else list(at)

    def tap(self, at: Sequence[ir.Expr]) -> list[ir.Expr]:
        """The index of a tap in the kernel."""
        return [index(0) for _ in self.given] if self.is_points else list(at)


def _forward(product: Product, machine: Machine) -> None:
    (x, w), space = product.operands, _space(product.numbers)
    shape = _shape(x, _sizes(w)[0])
    if is_point_product(space.given, sizes := _matrix(shape, space), machine):
        point_forward(product, space.given, sizes, machine)
        return
    _windowed(
        shape,
        [[axis.forward() for axis in space.axes]],
        lambda n, c, *at: load(x, [n, c, *space.flat(at)]),
        lambda m, c, *taps: load(w, [m, c, *space.tap(taps)]),
        lambda n, m, at, value: product.store([n, m, *space.position(at)], value),
        machine,
        scattered=collides(math.prod(_sizes(w)[1:])),
    )


def _data_gradient(product: Product, machine: Machine) -> None:
    (dy, w), space = product.operands, _space(product.numbers)
    shape = _shape(dy, _sizes(w)[1])
    if is_point_product(space.given, sizes := _matrix(shape, space), machine):
        point_data_gradient(product, space.given, sizes, machine)
        return
    if is_mostly_padding(space.given, shape, machine):
        scattered_gradient(
            shape,
            space.given,
            lambda n, m, *at: load(dy, [n, m, *at]),
            lambda c, m, *taps: load(w, [m, c, *taps]),
            lambda n, c, at, value: product.store([n, c, *at], value),
            machine,
        )
        return
    _windowed(
        shape,
        list(itertools.product(*(axis.backward() for axis in space.axes))),
        lambda n, m, *at: load(dy, [n, m, *space.flat(at)]),
        lambda c, m, *taps: load(w, [m, c, *space.tap(taps)]),
        lambda n, c, at, value: product.store([n, c, *space.position(at)], value),
        machine,
        scattered=True,
    )


def _windowed(
    shape: Shape,
    walks: Sequence[Sequence[Walk]],
    image: Read,
    weight: Read,
    store: Store,
    machine: Machine,
    *,
    scattered: bool,
) -> None:
    """The form with the fewest products, where the model or a record has it, or the direct one."""
    if is_winograd(shape, walks, machine):
        winograd_product(shape, walks[0], image, weight, store, machine)
        return
    staged_product(shape, walks, image, weight, store, machine, scattered=scattered)


def _matrix(shape: Shape, space: _Space) -> ProductSizes:
    """The product as one of matrices, if it has one tap."""
    return ProductSizes(shape.batch, shape.rows, shape.channels, space.positions)


def _weight_gradient(product: Product, machine: Machine) -> None:
    (x, dy), space = product.operands, _space(product.numbers)
    between = [index(0) for _ in space.given[1:]]
    shape = _shape(x, _sizes(dy)[1])
    if _has_lane_sums(shape, space, machine):
        lane_gradient(
            shape,
            space.positions,
            lambda n, c, p: load(x, [n, c, *between, p]),
            lambda n, m, p: load(dy, [n, m, *between, p]),
            product.result,
            machine,
            is_direct=all(_lies_as_float32(each) for each in (x, dy)),
        )
        return
    # Of points, either operand may be copied in panels, if its channels fill vectors.
    is_swapped = False
    if space.is_points and shape.channels % machine.lanes == 0:
        usual = (int(_is_worth_swapping(shape, machine)),)
        (is_swapped,) = map(bool, machine.decide("swapped", [(0,), (1,)], usual))
    if is_swapped:
        x, dy, shape = dy, x, Shape(shape.batch, shape.rows, shape.channels)
    axes = space.axes

    def read(n: ir.Expr, c: ir.Expr, *at: ir.Expr) -> ir.Expr:
        return load(x, [n, c, *space.flat(at)])

    if shape.channels <= _FEW_CHANNELS and not space.is_points:
        shape, axes, read = _unrolled(shape, axes, read)
    weight_gradient(
        shape,
        [axis.forward() for axis in axes],
        read,
        lambda n, m, p: load(dy, [n, m, *between, p]),
        product.result,
        machine,
        is_swapped=is_swapped,
    )


def _is_worth_swapping(shape: Shape, machine: Machine) -> bool:
    """Whether panels are of the image, and not of `dy`.

    Where few channels of the image would use a copy of `dy`, the image's is made. In a phone's
    caches, blocks count more: all channels of one operand are there, and one panel of the other, so
    that with panels of the operand with more channels sums wait in memory less often.
    """
    if machine.first_bytes:
        return shape.channels > shape.rows
    return shape.channels < min(WORTH_A_COPY, shape.rows)


def _lies_as_float32(tensor: Readable) -> bool:
    """Whether elements are stored as they are multiplied: not in float16, nor normalised."""
    element = tensor[tuple(index(0) for _ in tensor.shape)]
    return isinstance(element, ir.TensorLoad) and str(element.ty.dtype) == "float32"


def _has_lane_sums(shape: Shape, space: _Space, machine: Machine) -> bool:
    """Whether lanes share the sums of a weights' gradient."""
    terms = shape.batch * space.positions
    is_possible = space.is_points and space.positions >= machine.lanes
    if not is_possible or machine.dtype(terms) != "float32":
        return False
    usual = is_worth_lanes(shape, space.positions, machine)
    (has,) = machine.decide("lanes", [(0,), (1,)], (int(usual),))
    return bool(has)


def _unrolled(
    shape: Shape, axes: Sequence[ConvolutionAxis], image: Callable[..., ir.Expr]
) -> tuple[Shape, list[ConvolutionAxis], Callable[..., ir.Expr]]:
    """The same convolution, with a channel of the image for each tap of the first axis.

    A tile of so few channels would wait for each of its sums.
    """
    first = axes[0]

    def read(n: ir.Expr, c: ir.Expr, o: ir.Expr, *at: ir.Expr) -> ir.Expr:
        row = o * first.stride + c % first.kernel * first.dilation - first.pad
        inside = tirx.all(row >= 0, row < first.size)
        zero = tirx.const(0.0, "float32")
        return tirx.if_then_else(inside, image(n, c // first.kernel, row, *at), zero)

    channels = shape.channels * first.kernel
    return (
        Shape(shape.batch, channels, shape.rows),
        [ConvolutionAxis.points(first.out), *axes[1:]],
        read,
    )


Loops = Callable[[Product, Machine], None]
WindowLoops = Callable[[Product, Sequence[ConvolutionAxis], Machine], None]


def _either(second: Loops, last: Loops) -> Loops:
    """The loops of products whose channels are second, or last: their mark has one number more."""

    def write(product: Product, machine: Machine) -> None:
        (last if len(product.numbers) % _NUMBERS else second)(product, machine)

    return write


def _last(of_points: Loops, of_windows: WindowLoops) -> Loops:
    """The loops of products whose channels are last: of one tap in its place, or of others."""

    def write(product: Product, machine: Machine) -> None:
        space = _space(product.numbers[:-1])
        if space.is_points:
            of_points(product, machine)
        else:
            of_windows(product, space.given, machine)

    return write


CONVOLUTION_LOOPS: dict[str, Loops] = {
    "convolution": _either(_forward, _last(point_last.forward, window_last.forward)),
    "data-gradient": _either(
        _data_gradient, _last(point_last.data_gradient, window_last.data_gradient)
    ),
    "weight-gradient": _either(
        _weight_gradient, _last(point_last.weight_gradient, window_gradient_last.weight_gradient)
    ),
}


def _space(numbers: Sequence[int]) -> _Space:
    return _Space(
        [ConvolutionAxis(*numbers[at : at + _NUMBERS]) for at in range(0, len(numbers), _NUMBERS)]
    )


def _shape(image: tirx.Buffer, rows: int) -> Shape:
    batch, channels, *_ = _sizes(image)
    return Shape(batch, channels, rows)


def _sizes(buffer: tirx.Buffer) -> list[int]:
    return [int(size) for size in buffer.shape]
