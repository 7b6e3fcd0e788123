"""The windows over an image, tap by tap, as a tensor of its own."""

import itertools
from collections.abc import Sequence

import numpy as np

from odtc.frontend.operators.forms import concat, reshape
from odtc.frontend.operators.images.padding import pad
from odtc.frontend.operators.images.windows import Windows
from odtc.frontend.operators.operator import Emit, Node

# Since this opset a Slice has steps.
STEPS_SINCE = 10


def counts_of(windows: Windows, pads: Sequence[int]) -> list[int]:
    """How many windows there are along each axis, for padding before and after."""
    axes = range(len(windows.sizes))
    return [
        (windows.sizes[i] + pads[i] + pads[i + len(axes)] - windows.spans[i]) // windows.strides[i]
        + 1
        for i in axes
    ]


def taps_of(windows: Windows) -> list[tuple[int, ...]]:
    """The places in a window, the last axis running fastest."""
    return list(itertools.product(*(range(size) for size in windows.kernel)))


def patches(
    node: Node, emit: Emit, data: str, windows: Windows, pads: Sequence[int], fill: float
) -> str:
    """The windows over an image, `[batch, channels, taps, *counts]`.

    Args:
        node: the node that is expanded; its first input has the shape of `data`.
        emit: its emitter.
        data: an image `[batch, channels, *sizes]`.
        windows: over the image.
        pads: elements in front of the image on each axis, then after it.
        fill: value of the padding.
    """
    batch, channels = node.shape()[:2]
    counts = counts_of(windows, pads)
    axes = range(len(counts))
    if any(pads):
        frame = [0, 0, *pads[: len(counts)], 0, 0, *pads[len(counts) :]]
        data = pad(node, emit, data, frame, fill)
    parts = []
    for at in taps_of(windows):
        starts = [o * windows.dilations[i] for i, o in enumerate(at)]
        ends = [starts[i] + (counts[i] - 1) * windows.strides[i] + 1 for i in axes]
        bounds = (starts, ends, [i + 2 for i in axes], windows.strides)
        cut = emit("Slice", data, *(np.array(each, np.int64) for each in bounds))
        parts.append(reshape(emit, cut, batch, channels, 1, *counts))
    return concat(emit, parts, 2)
