"""Reading images between their elements, as grids, regions and deformed windows do.

Elements are read as rows of channels, all those that a position needs at once, by one GatherND
whose batch dimensions keep samples apart. The weights are polynomials in a position's distance to
the element below it, so gradients in the image and in the positions follow by themselves.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from odtc.frontend.operators.forms import reshape
from odtc.frontend.operators.operator import Emit, Node
from odtc.frontend.operators.reduction import reduce


@dataclass(frozen=True)
class Kernel:
    """Which elements take part along one axis, and how much of each.

    Attributes:
        first: the first element, counted from the one below the position.
        weights: of each element in order, the coefficients of a polynomial in the distance of the
            position to the element below it, from the constant on.
    """

    first: int
    weights: tuple[tuple[float, ...], ...]


def _cubic(a: float) -> Kernel:
    """Cubic convolution (Keys, 1981)."""
    return Kernel(
        -1,
        (
            (0, a, -2 * a, a),
            (1, 0, -(a + 3), a + 2),
            (0, -a, 2 * a + 3, -(a + 2)),
            (0, 0, a, -a),
        ),
    )


LINEAR = Kernel(0, ((1, -1), (0, 1)))
# With the coefficient that PyTorch and ONNX fix for grids.
CUBIC = _cubic(-0.75)


@dataclass(frozen=True)
class Taps:
    """The elements along one axis of which each position is made.

    Attributes:
        places: name of their indices, whole floats `[*lead, positions, count]`.
        weights: name of their shares, of the same shape; None for a single one.
        count: how many there are to a position.
    """

    places: str
    weights: str | None
    count: int


@dataclass(frozen=True)
class Image:
    """Elements as rows of channels.

    Attributes:
        rows: name of a tensor `[*lead, elements, channels]`.
        lead: dimensions that are read apart from each other.
        sizes: the spatial dimensions, whose product is `elements`.
        channels: elements of a row.
    """

    rows: str
    lead: tuple[int, ...]
    sizes: tuple[int, ...]
    channels: int


def taps(node: Node, emit: Emit, position: str, kernel: Kernel) -> Taps:
    """The elements around positions `[*lead, positions, 1]`."""
    dtype, count = node.dtype(), len(kernel.weights)
    below = emit("Floor", position)
    places = emit("Add", below, np.arange(count, dtype=dtype) + np.dtype(dtype).type(kernel.first))
    distance = emit("Sub", position, below)
    powers = np.array(kernel.weights, dtype).T[::-1]
    weights = emit("Add", emit("Mul", distance, powers[0]), powers[1])
    for coefficients in powers[2:]:
        weights = emit("Add", emit("Mul", weights, distance), coefficients)
    return Taps(places, weights, count)


def framed(emit: Emit, data: str, shape: Sequence[int]) -> str:
    """An image `[samples, channels, *shape]` with one element of zeros around it."""
    ring = [0, 0, *(1 for _ in shape)]
    return emit("Pad", data, np.array(ring * 2, np.int64))


def in_frame(emit: Emit, places: str, size: int) -> str:
    """Indices into an axis with one element of zeros at both ends: all outside meets these."""
    return emit("Add", emit("Clip", places, -1.0, float(size)), 1.0)


def rows_of(
    emit: Emit, data: str, lead: Sequence[int], channels: int, sizes: Sequence[int]
) -> Image:
    """An image `[*lead, channels, *sizes]`, in memory or by another view, as rows."""
    flat = reshape(emit, data, *lead, channels, math.prod(sizes))
    order = [*range(len(lead)), len(lead) + 1, len(lead)]
    return Image(emit("Transpose", flat, perm=order), tuple(lead), tuple(sizes), channels)


def read(node: Node, emit: Emit, image: Image, axes: Sequence[Taps], positions: int) -> str:
    """The image at positions, `[*lead, positions, channels]`.

    Args:
        node: the node that is expanded.
        emit: its emitter.
        image: what is read.
        axes: the elements along each axis; their indices are inside of it.
        positions: how many there are to each of the leading dimensions.
    """
    counts = [axis.count for axis in axes]
    lead, many = image.lead, math.prod(counts)
    index = _joined(emit, axes, [_integers(emit, axis) for axis in axes], lead, positions, image)
    index = reshape(emit, index, *lead, positions * many, 1)
    values = emit("GatherND", image.rows, index, batch_dims=len(lead))
    if many == 1:
        return values
    values = reshape(emit, values, *lead, positions, many, image.channels)
    shares = _shares(emit, axes, lead, positions)
    weighted = emit("Mul", values, reshape(emit, shares, *lead, positions, many, 1))
    return reduce(node, emit, "ReduceSum", weighted, [len(lead) + 1], keepdims=0)


def _integers(emit: Emit, axis: Taps) -> str:
    return emit("Cast", axis.places, to=7)


def _spread(axes: Sequence[Taps], at: int) -> list[int]:
    """The shape of one axis' elements among those of all axes."""
    return [axis.count if here == at else 1 for here, axis in enumerate(axes)]


def _joined(
    emit: Emit,
    axes: Sequence[Taps],
    places: Sequence[str],
    lead: Sequence[int],
    positions: int,
    image: Image,
) -> str:
    """Indices of rows: those along the axes, each times what a step along it skips."""
    total = ""
    for at, name in enumerate(places):
        index = reshape(emit, name, *lead, positions, *_spread(axes, at))
        stride = math.prod(image.sizes[at + 1 :])
        index = emit("Mul", index, stride) if stride > 1 else index
        total = emit("Add", total, index) if total else index
    return total


def _shares(emit: Emit, axes: Sequence[Taps], lead: Sequence[int], positions: int) -> str:
    total = ""
    for at, axis in enumerate(axes):
        assert axis.weights is not None
        share = reshape(emit, axis.weights, *lead, positions, *_spread(axes, at))
        total = emit("Mul", total, share) if total else share
    return total
