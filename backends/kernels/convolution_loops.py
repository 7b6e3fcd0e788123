"""The loops of a convolution's kernel, and of its gradients'."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import ir, tirx

from odtc.backends.kernels.fused import Product
from odtc.backends.kernels.grid import Axis, Walk
from odtc.backends.kernels.panel_product import (
    Panels,
    Sizes,
    collides,
    fits_dense,
    panel_product,
    sets_of,
)
from odtc.backends.kernels.places import index, load, unflatten
from odtc.backends.kernels.shifted_product import Shape, staged_product
from odtc.backends.kernels.tile import Machine
from odtc.backends.kernels.weight_gradient import WORTH_A_COPY, weight_gradient

# Channels of an image that are too few for a tile's rows.
_FEW_CHANNELS = 2
# Sets of a cache that are too few for the rows of a weight.
_FEW_SETS = 4


@dataclass(frozen=True)
class _Space:
    """The spatial axes, and how tensors are indexed by positions along them.

    Where every output is of one element in its place, a position is one number, whatever the rank:
    rows do not matter.

    Attributes:
        given: the axes as they are.
    """

    given: list[Axis]

    @property
    def is_points(self) -> bool:
        """Whether every output is of one element in its place."""
        return all(axis.is_point for axis in self.given)

    @property
    def positions(self) -> int:
        """Number of outputs."""
        return math.prod(axis.out for axis in self.given)

    @property
    def axes(self) -> list[Axis]:
        """The axes to walk along, at least two."""
        if self.is_points:
            return [Axis.points(1), Axis.points(self.positions)]
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
    collide = collides(math.prod(_sizes(w)[1:]))
    _product(
        _shape(x, _sizes(w)[0]),
        space,
        [[axis.forward() for axis in space.axes]],
        (x, lambda m, c, *at: load(w, [m, c, *at])),
        product,
        machine,
        lies_well=not collide,
        scattered=collide,
    )


def _data_gradient(product: Product, machine: Machine) -> None:
    (dy, w), space = product.operands, _space(product.numbers)
    _product(
        _shape(dy, _sizes(w)[1]),
        space,
        list(itertools.product(*(axis.backward() for axis in space.axes))),
        (dy, lambda c, m, *at: load(w, [m, c, *at])),
        product,
        machine,
        lies_well=True,
        scattered=True,
    )


def _product(
    shape: Shape,
    space: _Space,
    walks: Sequence[Sequence[Walk]],
    sources: tuple[tirx.Buffer, Callable[..., ir.Expr]],
    product: Product,
    machine: Machine,
    *,
    lies_well: bool,
    scattered: bool,
) -> None:
    """Emits a product that reads the image where it lies, or from a staged copy.

    Args:
        shape: sizes.
        space: the spatial axes.
        walks: over the image, as `staged_product` takes them.
        sources: the image, and from `(row, channel, *taps)` to a weight.
        product: where results go.
        machine: the CPU.
        lies_well: whether a product of points may read its weights where they lie.
        scattered: whether a tile's weights are copied for a staged product.
    """
    image, weight = sources

    def read(n: ir.Expr, c: ir.Expr, *at: ir.Expr) -> ir.Expr:
        return load(image, [n, c, *space.flat(at)])

    def store(n: ir.Expr, m: ir.Expr, at: Sequence[ir.Expr], value: ir.Expr) -> None:
        product.store([n, m, *space.position(at)], value)

    # A staged product has wider tiles. It is faster only where a tall one would read weights that
    # push each other out of a cache.
    tall = sets_of(math.prod(_sizes(product.operands[1])[1:])) > _FEW_SETS
    is_dense = lies_well and space.is_points and str(image.dtype) == "float32"
    # In float16 nothing is read where it lies.
    dtype = machine.dtype(shape.channels, shape.rows, shape.batch * space.positions)
    is_dense = is_dense and dtype == "float32"
    if is_dense and fits_dense(shape.rows, space.positions, machine, tall=tall):
        panel_product(
            Sizes(shape.batch, shape.rows, shape.channels, space.positions),
            lambda _, m, c: weight(m, c, *space.tap([])),
            Panels(read, True, space.positions),
            lambda n, m, p, value: store(n, m, [p], value),
            lambda n, m, p: product.ahead([n, m, *space.position([p])]),
            machine,
        )
        return
    staged_product(
        shape,
        walks,
        read,
        lambda m, c, *taps: weight(m, c, *space.tap(taps)),
        store,
        machine,
        scattered=scattered,
    )


def _weight_gradient(product: Product, machine: Machine) -> None:
    (x, dy), space = product.operands, _space(product.numbers)
    between = [index(0) for _ in space.given[1:]]
    shape = _shape(x, _sizes(dy)[1])
    # Of points, either operand may be copied in panels. Where few channels of the image would use a
    # copy of `dy`, the image's is, if its channels fill vectors.
    is_few = shape.channels < min(WORTH_A_COPY, shape.rows)
    is_swapped = space.is_points and is_few and shape.channels % machine.lanes == 0
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


def _unrolled(
    shape: Shape, axes: Sequence[Axis], image: Callable[..., ir.Expr]
) -> tuple[Shape, list[Axis], Callable[..., ir.Expr]]:
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
    return Shape(shape.batch, channels, shape.rows), [Axis.points(first.out), *axes[1:]], read


CONVOLUTION_LOOPS: dict[str, Callable[[Product, Machine], None]] = {
    "convolution": _forward,
    "data-gradient": _data_gradient,
    "weight-gradient": _weight_gradient,
}


def _space(numbers: Sequence[int]) -> _Space:
    return _Space([Axis(*numbers[at : at + 6]) for at in range(0, len(numbers), 6)])


def _shape(image: tirx.Buffer, rows: int) -> Shape:
    batch, channels, *_ = _sizes(image)
    return Shape(batch, channels, rows)


def _sizes(buffer: tirx.Buffer) -> list[int]:
    return [int(size) for size in buffer.shape]
