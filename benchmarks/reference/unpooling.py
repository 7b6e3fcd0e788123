"""ONNX's operators that crop, fold and unpool, as PyTorch functions."""

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

Attributes = dict[str, Any]


def _center_crop_pad(attrs: Attributes, x: Tensor, target: Tensor) -> Tensor:
    axes = attrs.get("axes", list(range(x.ndim)))
    amounts = [(0, 0)] * x.ndim
    for axis, size in zip(axes, target.tolist(), strict=True):
        change = size - x.shape[axis]
        front = int(change / 2)
        amounts[axis % x.ndim] = (front, change - front)
    return F.pad(x, [amount for pair in reversed(amounts) for amount in pair])


def _col2im(attrs: Attributes, x: Tensor, image: Tensor, block: Tensor) -> Tensor:
    """Of any rank: elements are added where their blocks lie."""
    sizes, kernel = image.tolist(), block.tolist()
    axes = range(len(sizes))
    strides = attrs.get("strides") or [1 for _ in axes]
    dilations = attrs.get("dilations") or [1 for _ in axes]
    pads = attrs.get("pads") or [0 for _ in axes] * 2
    room = [sizes[i] + pads[i] + pads[i + len(sizes)] for i in axes]
    along = []
    for i in axes:
        taps = torch.arange(kernel[i]) * dilations[i]
        starts = torch.arange(0, room[i] - int(taps[-1]), strides[i])
        along.append(taps[:, None] + starts)
    grids = torch.meshgrid(*(each.flatten() for each in along), indexing="ij")
    flat = sum(grid * math.prod(room[i + 1 :]) for i, grid in enumerate(grids))
    assert isinstance(flat, Tensor)
    # From (taps, blocks) of each axis after the other to all taps, then all blocks.
    order = [*range(0, 2 * len(sizes), 2), *range(1, 2 * len(sizes), 2)]
    index = flat.reshape([size for each in along for size in each.shape]).permute(order).flatten()
    planes = x.reshape(x.shape[0], -1, index.numel())
    frame = x.new_zeros(*planes.shape[:2], math.prod(room)).index_add(2, index, planes)
    frame = frame.reshape(*planes.shape[:2], *room)
    for i in axes:
        frame = frame.narrow(i + 2, pads[i], sizes[i])
    return frame


def _max_unpool(
    attrs: Attributes, x: Tensor, places: Tensor, target: Tensor | None = None
) -> Tensor:
    """Places are in the whole tensor in one row."""
    kernel = attrs["kernel_shape"]
    strides = attrs.get("strides") or [1] * len(kernel)
    pads = attrs.get("pads") or [0] * 2 * len(kernel)
    sizes = [
        (size - 1) * strides[i] - pads[i] - pads[i + len(kernel)] + kernel[i]
        for i, size in enumerate(x.shape[2:])
    ]
    shape = [*x.shape[:2], *sizes]
    flat = x.new_zeros(math.prod(shape)).scatter(0, places.flatten(), x.flatten())
    wanted = shape if target is None else target.tolist()
    behind = [amount for i in reversed(range(x.ndim)) for amount in (0, wanted[i] - shape[i])]
    return F.pad(flat.reshape(shape), behind)


UNPOOLING = {
    "CenterCropPad": _center_crop_pad,
    "Col2Im": _col2im,
    "Det": lambda _, x: torch.linalg.det(x),
    "MaxUnpool": _max_unpool,
}
