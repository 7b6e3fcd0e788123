"""Where a max pooling found its elements, as places in the whole tensor in one row.

The elements that each window sees are laid side by side, and the first of the largest is searched.
"""

import itertools
import math

import numpy as np

from odtc.frontend.operators.forms import concat, reshape
from odtc.frontend.operators.operator import Emit, Node
from odtc.frontend.operators.padding import pad
from odtc.frontend.operators.windows import Windows

# Since this opset a Slice has steps.
STEPS_SINCE = 10


def with_indices(node: Node, emit: Emit, windows: Windows, pads: list[int]) -> list[str]:
    """A max pooling as one without indices, and its indices beside it.

    Args:
        node: a MaxPool whose indices are read.
        emit: its emitter.
        windows: its windows.
        pads: those that they reach into.
    """
    attrs = {k: v for k, v in node.attrs.items() if k != "storage_order"}
    return [emit("MaxPool", node.inputs[0], **attrs), _indices(node, emit, windows, pads)]


def _indices(node: Node, emit: Emit, windows: Windows, pads: list[int]) -> str:
    shape = node.output_shape()
    assert shape is not None
    batch, channels, *counts = shape
    tap = emit("ArgMax", _seen(node, emit, windows, pads, shape), axis=2, keepdims=0)
    axes, sizes = range(len(counts)), list(windows.sizes)
    # Elements of the row or, if so stored, of the column first.
    backwards = bool(node.attrs.get("storage_order"))
    steps = [math.prod(sizes[:i] if backwards else sizes[i + 1 :]) for i in axes]
    planes = np.arange(batch * channels).reshape(batch, channels, *(1 for _ in axes))
    start = planes * math.prod(sizes)
    for i in axes:
        along = (np.arange(counts[i]) * windows.strides[i] - pads[i]) * steps[i]
        start = start + along.reshape([-1 if at == i else 1 for at in axes])
    offsets = itertools.product(*(range(size) for size in windows.kernel))
    inside = [sum(o * windows.dilations[i] * steps[i] for i, o in enumerate(at)) for at in offsets]
    return emit("Add", emit("Gather", np.array(inside, np.int64), tap), start.astype(np.int64))


def _seen(node: Node, emit: Emit, windows: Windows, pads: list[int], shape: tuple[int, ...]) -> str:
    """What the windows see, `[batch, channels, taps, *counts]`."""
    batch, channels, *counts = shape
    axes = range(len(counts))
    lowest = _lowest(np.dtype(node.dtype()))
    frame = [0, 0, *pads[: len(counts)], 0, 0, *pads[len(counts) :]]
    data = pad(node, emit, node.inputs[0], frame, lowest) if any(pads) else node.inputs[0]
    listed = np.arange(2, len(counts) + 2)
    parts = []
    for at in itertools.product(*(range(size) for size in windows.kernel)):
        starts = [o * windows.dilations[i] for i, o in enumerate(at)]
        ends = [starts[i] + (counts[i] - 1) * windows.strides[i] + 1 for i in axes]
        cut = emit("Slice", data, *map(_ints, (starts, ends, listed, windows.strides)))
        parts.append(reshape(emit, cut, batch, channels, 1, *counts))
    return concat(emit, parts, 2)


def _ints(values: object) -> np.ndarray:
    return np.asarray(values, np.int64)


def _lowest(dtype: np.dtype) -> float:
    return -math.inf if dtype.kind == "f" else int(np.iinfo(dtype).min)
