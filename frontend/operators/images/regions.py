"""Pooling over regions of images, each into the same number of bins.

Features have a gradient. The regions have none, as in torchvision: a detector finds them by a loss
of their own.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import relax
from tvm.relax import op as R  # noqa: N812
from tvm.relax.op.grad import no_grad

from odtc.frontend.operators.operator import Node, Operator

_OPSET_OF_HALF_PIXEL = 16
_NOTE = "{}: its regions get no gradient, as in torchvision"


def _aligned(node: Node) -> str:
    """The shapes must be known, and how many samples a bin has."""
    if any(name not in node.graph.shapes for name in node.inputs):
        return "the inputs' shapes are not static"
    count = node.shape(2)[0] if node.rank(2) == 1 else -1
    if node.rank() != 4 or node.shape(1) != (count, 4):
        return f"regions of shape {list(node.shape(1))} do not fit {list(node.shape(2))} images"
    if node.attrs.get("mode", "avg") not in ("avg", "max"):
        return f"mode {node.attrs['mode']!r} is neither avg nor max"
    if node.attrs.get("sampling_ratio", 0) < 1:
        return "sampling_ratio must be 1 or more: with 0 the regions say how many samples a bin has"
    return ""


def _pooled(node: Node) -> str:
    """The shapes must be known."""
    if any(name not in node.graph.shapes for name in node.inputs):
        return "the inputs' shapes are not static"
    if node.rank() == 4 and node.rank(1) == 2 and node.shape(1)[1] == 5:
        return ""
    return f"regions of shape {list(node.shape(1))} are not lists of 5 numbers over images"


def _noted(node: Node, region: relax.Expr) -> relax.Expr:
    if node.constant(1) is None:
        node.graph.notes.append(_NOTE.format(node.proto.name or node.proto.output[0]))
    return no_grad(region)


def _number(value: Any, dtype: str) -> relax.Expr:
    return relax.const(np.asarray(value, dtype), dtype)


def _columns(builder: relax.BlockBuilder, table: relax.Expr, count: int) -> list[relax.Expr]:
    """The columns of a matrix, each a matrix of one column."""
    return [builder.emit(R.strided_slice(table, [1], [at], [at + 1])) for at in range(count)]


def _along(
    builder: relax.BlockBuilder, node: Node, start: relax.Expr, end: relax.Expr, axis: int
) -> tuple[relax.Expr, relax.Expr]:
    """The elements around the samples of all bins along an axis.

    Returns:
        Indices of int64 and weights, `[regions, bins * samples, 2]`.
    """
    emit, dtype = builder.emit, node.dtype()
    size, ratio = node.shape()[axis + 2], node.attrs["sampling_ratio"]
    bins = node.attrs.get(("output_height", "output_width")[axis], 1)
    length = emit(R.subtract(end, start))
    if not _half_pixel(node):
        length = emit(R.maximum(length, _number(1, dtype)))
    shares = (np.arange(bins * ratio) + 0.5) / (bins * ratio)
    place = emit(R.add(start, R.multiply(length, _number(shares[None], dtype))))
    low, high = (_number(each, dtype) for each in (-1, size))
    inside = R.logical_and(R.greater_equal(place, low), R.less_equal(place, high))
    last = _number(size - 1, dtype)
    held = emit(R.minimum(R.maximum(place, _number(0, dtype)), last))
    below = emit(R.floor(held))
    rest = emit(R.subtract(held, below))
    above = R.minimum(R.add(below, _number(1, dtype)), last)
    weights = R.stack([R.subtract(_number(1, dtype), rest), rest], axis=2)
    shown = R.expand_dims(R.astype(inside, dtype), 2)
    indices = R.astype(R.stack([below, above], axis=2), "int64")
    return emit(indices), emit(R.multiply(weights, shown))


def _half_pixel(node: Node) -> bool:
    default = "half_pixel" if node.opset >= _OPSET_OF_HALF_PIXEL else "output_half_pixel"
    return node.attrs.get("coordinate_transformation_mode", default) == "half_pixel"


def _roi_align(builder: relax.BlockBuilder, node: Node, inputs: Sequence[Any]) -> relax.Expr:
    """The mean over a bin's samples, or the largest share that one of them has in an element."""
    emit, dtype, attrs = builder.emit, node.dtype(), node.attrs
    images, channels, height, width = node.shape()
    regions, ratio = node.shape(1)[0], attrs["sampling_ratio"]
    bins = attrs.get("output_height", 1), attrs.get("output_width", 1)
    scaled = R.multiply(_noted(node, inputs[1]), _number(attrs.get("spatial_scale", 1.0), dtype))
    moved = emit(R.subtract(scaled, _number(0.5 if _half_pixel(node) else 0.0, dtype)))
    left, top, right, bottom = _columns(builder, moved, 4)
    (rows, row_weights), (columns, column_weights) = (
        _along(builder, node, start, end, axis)
        for axis, (start, end) in enumerate(((top, bottom), (left, right)))
    )
    many = [count * ratio for count in bins]
    upright, flat = (regions, many[0], 1, 2, 1), (regions, 1, many[1], 1, 2)
    image = R.reshape(R.astype(inputs[2], "int64"), (regions, 1, 1, 1, 1))
    line = R.add(R.multiply(image, _number(height, "int64")), R.reshape(rows, upright))
    places = R.add(R.multiply(line, _number(width, "int64")), R.reshape(columns, flat))
    table = R.reshape(R.permute_dims(inputs[0], [0, 2, 3, 1]), (images * height * width, channels))
    listed = emit(R.reshape(places, (regions * math.prod(many) * 4,)))
    values = R.take(emit(table), listed, axis=0, mode="wrap")
    shares = emit(R.multiply(R.reshape(row_weights, upright), R.reshape(column_weights, flat)))
    apart = (regions, bins[0], ratio, bins[1], ratio, 4)
    weighted = emit(
        R.multiply(R.reshape(values, (*apart, channels)), R.reshape(shares, (*apart, 1)))
    )
    if attrs.get("mode", "avg") == "avg":
        pooled = R.divide(R.sum(weighted, [2, 4, 5]), _number(ratio * ratio, dtype))
    else:
        pooled = R.max(weighted, [2, 4, 5])
    return R.permute_dims(emit(pooled), [0, 3, 1, 2])


def _bounds(
    builder: relax.BlockBuilder, node: Node, start: relax.Expr, end: relax.Expr, axis: int
) -> relax.Expr:
    """Which elements along an axis are in each bin, `[regions, bins, size]`."""
    emit, dtype = builder.emit, node.dtype()
    size, bins = node.shape()[axis + 2], node.attrs["pooled_shape"][axis]
    length = R.maximum(R.add(R.subtract(end, start), _number(1, dtype)), _number(1, dtype))
    step = emit(R.divide(length, _number(bins, dtype)))
    first, behind = (_number(np.arange(bins)[None] + one, dtype) for one in (0, 1))
    starts = R.add(R.floor(R.multiply(step, first)), start)
    ends = R.add(R.ceil(R.multiply(step, behind)), start)
    places = _number(np.arange(size)[None, None], dtype)
    return emit(
        R.logical_and(
            R.greater_equal(places, R.expand_dims(starts, 2)),
            R.less(places, R.expand_dims(ends, 2)),
        )
    )


def _rounded(value: relax.Expr, dtype: str) -> relax.Expr:
    """To the nearest whole number, halves away from zero."""
    size = R.floor(R.add(R.abs(value), _number(0.5, dtype)))
    return R.multiply(R.sign(value), size)


def _max_roi_pool(builder: relax.BlockBuilder, node: Node, inputs: Sequence[Any]) -> relax.Expr:
    """The largest element of each bin: of its columns, and then of its rows. An empty bin has 0."""
    emit, dtype = builder.emit, node.dtype()
    _, channels, height, width = node.shape()
    regions, bins = node.shape(1)[0], node.attrs["pooled_shape"]
    scale = _number(node.attrs.get("spatial_scale", 1.0), dtype)
    image, *edges = _columns(builder, emit(_noted(node, inputs[1])), 5)
    left, top, right, bottom = (
        emit(_rounded(emit(R.multiply(edge, scale)), dtype)) for edge in edges
    )
    in_row = _bounds(builder, node, top, bottom, 0)
    in_column = _bounds(builder, node, left, right, 1)
    numbers = R.reshape(R.astype(image, "int64"), (regions,))
    data = R.take(inputs[0], emit(numbers), axis=0, mode="wrap")
    lowest = _number(np.finfo(dtype).min, dtype)
    rows = R.where(
        R.reshape(in_column, (regions, 1, 1, bins[1], width)),
        R.reshape(data, (regions, channels, height, 1, width)),
        lowest,
    )
    largest = emit(R.max(emit(rows), [4]))
    bin_rows = R.where(
        R.reshape(in_row, (regions, 1, bins[0], height, 1)),
        R.reshape(largest, (regions, channels, 1, height, bins[1])),
        lowest,
    )
    pooled = emit(R.max(emit(bin_rows), [3]))
    some = R.logical_and(
        R.reshape(_any(builder, in_row), (regions, 1, bins[0], 1)),
        R.reshape(_any(builder, in_column), (regions, 1, 1, bins[1])),
    )
    return R.where(emit(some), pooled, _number(0, dtype))


def _any(builder: relax.BlockBuilder, mask: relax.Expr) -> relax.Expr:
    """Whether a bin has an element along an axis."""
    return builder.emit(R.astype(R.max(R.astype(mask, "uint8"), [2]), "bool"))


OPERATORS: dict[str, Operator] = {
    "MaxRoiPool": Operator(condition=_pooled, convert=_max_roi_pool),
    "RoiAlign": Operator(condition=_aligned, convert=_roi_align),
}
