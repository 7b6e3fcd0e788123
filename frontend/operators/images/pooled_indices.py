"""Where a max pooling found its elements, as places in the whole tensor in one row.

The elements that each window sees are laid side by side, and the first of the largest is searched.
"""

import math

import numpy as np

from odtc.frontend.operators.images.patches import counts_of, patches, taps_of
from odtc.frontend.operators.images.windows import Windows
from odtc.frontend.operators.operator import Emit, Node


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
    batch, channels, *sizes = node.shape()
    counts, axes = counts_of(windows, pads), range(len(sizes))
    seen = patches(node, emit, node.inputs[0], windows, pads, _lowest(np.dtype(node.dtype())))
    tap = emit("ArgMax", seen, axis=2, keepdims=0)
    # Elements of the row or, if so stored, of the column first.
    backwards = bool(node.attrs.get("storage_order"))
    steps = [math.prod(sizes[:i] if backwards else sizes[i + 1 :]) for i in axes]
    planes = np.arange(batch * channels).reshape(batch, channels, *(1 for _ in axes))
    start = planes * math.prod(sizes)
    for i in axes:
        along = (np.arange(counts[i]) * windows.strides[i] - pads[i]) * steps[i]
        start = start + along.reshape([-1 if at == i else 1 for at in axes])
    inside = [
        sum(o * windows.dilations[i] * steps[i] for i, o in enumerate(at))
        for at in taps_of(windows)
    ]
    return emit("Add", emit("Gather", np.array(inside, np.int64), tap), start.astype(np.int64))


def _lowest(dtype: np.dtype) -> float:
    return -math.inf if dtype.kind == "f" else int(np.iinfo(dtype).min)
