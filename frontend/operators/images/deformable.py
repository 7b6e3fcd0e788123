"""Convolutions whose windows are bent: each of their taps reads the image at a place of its own."""

import math

import numpy as np

from odtc.frontend.operators.forms import reshape, split_axis
from odtc.frontend.operators.images.interpolation import (
    LINEAR,
    Taps,
    framed,
    in_frame,
    read,
    rows_of,
    taps,
)
from odtc.frontend.operators.images.patches import counts_of
from odtc.frontend.operators.images.windows import Windows, windows_of
from odtc.frontend.operators.operator import Emit, Node, Operator


def _bent(node: Node) -> str:
    """Images of two axes; all shapes must be known, and fit together."""
    if any(name not in node.graph.shapes for name in node.inputs if name):
        return "the inputs' shapes are not static"
    if node.rank() != 4:
        return f"2 spatial axes are supported (rank 4); the input has rank {node.rank()}"
    windows, groups = windows_of(node), node.attrs.get("offset_group", 1)
    if node.shape()[1] % groups or node.shape()[1] != node.shape(1)[1] * _groups(node):
        return f"{node.shape()[1]} channels do not fit the weight and {groups} offset groups"
    counts, places = counts_of(windows, windows.pads), groups * math.prod(windows.kernel)
    expected = {2: (node.shape()[0], 2 * places, *counts), 4: (node.shape()[0], places, *counts)}
    for slot, shape in expected.items():
        if node.has(slot) and node.shape(slot) != shape:
            return f"{node.inputs[slot]!r} has shape {list(node.shape(slot))}, not {list(shape)}"
    return ""


def _groups(node: Node) -> int:
    return node.attrs.get("group", 1)


def _deform_conv(node: Node, emit: Emit) -> str:
    """The taps of all windows, read at their places, times the weights of their groups."""
    batch, channels, *sizes = node.shape()
    windows, groups = windows_of(node), node.attrs.get("offset_group", 1)
    counts, size = counts_of(windows, windows.pads), math.prod(windows.kernel)
    positions, lead = size * math.prod(counts), [batch, groups]
    offsets = reshape(emit, node.inputs[2], *lead, size, 2, math.prod(counts))
    axes = []
    for axis, part in enumerate(split_axis(node, emit, offsets, 3, [1, 1])):
        regular = _regular(windows, counts, axis).astype(node.dtype()).reshape(1, 1, -1, 1)
        place = emit("Add", reshape(emit, part, *lead, positions, 1), regular)
        found = taps(node, emit, place, LINEAR)
        places = in_frame(emit, found.places, sizes[axis])
        weights = found.weights
        if axis == 0 and node.has(4):
            assert weights is not None
            mask = reshape(emit, node.inputs[4], *lead, positions, 1)
            weights = emit("Mul", weights, mask)
        axes.append(Taps(places, weights, found.count))
    data = framed(emit, node.inputs[0], sizes)
    image = rows_of(emit, data, lead, channels // groups, [each + 2 for each in sizes])
    values = read(node, emit, image, axes, positions)
    return _summed(node, emit, values, counts)


def _regular(windows: Windows, counts: list[int], axis: int) -> np.ndarray:
    """Where the taps of all windows lie along an axis if nothing is bent, taps first."""
    taps_along = np.arange(windows.kernel[axis]) * windows.dilations[axis] - windows.pads[axis]
    starts = np.arange(counts[axis]) * windows.strides[axis]
    shape = [*windows.kernel, *counts]
    view = [size if at in (axis, axis + 2) else 1 for at, size in enumerate(shape)]
    return np.broadcast_to(np.add.outer(taps_along, starts).reshape(view), shape)


def _summed(node: Node, emit: Emit, values: str, counts: list[int]) -> str:
    """A matrix product of each group."""
    batch, channels = node.shape()[:2]
    groups, offset_groups = _groups(node), node.attrs.get("offset_group", 1)
    filters, inner, *kernel = node.shape(1)
    size, windows = math.prod(kernel), math.prod(counts)
    apart = reshape(emit, values, batch, offset_groups, size, windows, channels // offset_groups)
    columns = emit("Transpose", apart, perm=[0, 1, 4, 2, 3])
    columns = reshape(emit, columns, batch, groups, inner * size, windows)
    weights = reshape(emit, node.inputs[1], groups, filters // groups, inner * size)
    result = reshape(emit, emit("MatMul", weights, columns), batch, filters, *counts)
    if not node.has(3):
        return result
    return emit("Add", result, reshape(emit, node.inputs[3], filters, 1, 1))


OPERATORS: dict[str, Operator] = {
    "DeformConv": Operator(condition=_bent, expand=_deform_conv),
}
