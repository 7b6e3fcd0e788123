"""ONNX's pooling of regions and its bent convolution, as PyTorch functions.

One region, or one tap, after the other: slow, and easily compared with the standard.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

Attributes = dict[str, Any]


def _deform_conv(
    attrs: Attributes,
    x: Tensor,
    weight: Tensor,
    offset: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    kernel = weight.shape[2:]
    strides, dilations = (attrs.get(k) or [1, 1] for k in ("strides", "dilations"))
    pads = attrs.get("pads") or [0] * 4
    rows, columns = offset.shape[2:]
    groups, parts = attrs.get("offset_group", 1), []
    offsets = offset.unflatten(1, (groups, kernel[0], kernel[1], 2))
    masks = None if mask is None else mask.unflatten(1, (groups, kernel[0], kernel[1]))
    starts = [
        torch.arange(n, dtype=x.dtype) * step
        for n, step in zip((rows, columns), strides, strict=True)
    ]
    for at in range(kernel[0] * kernel[1]):
        tap = at // kernel[1], at % kernel[1]
        base = torch.meshgrid(
            *(starts[i] - pads[i] + tap[i] * dilations[i] for i in range(2)), indexing="ij"
        )
        seen = []
        for group, image in enumerate(x.chunk(groups, 1)):
            place = [base[i] + offsets[:, group, tap[0], tap[1], i] for i in range(2)]
            # In -0.5 .. size - 0.5, so that an axis of one element has positions, too.
            unit = [(2 * p + 1) / x.shape[i + 2] - 1 for i, p in enumerate(place)]
            values = F.grid_sample(image, torch.stack(unit[::-1], -1), align_corners=False)
            if masks is not None:
                values = values * masks[:, group, tap[0], tap[1]][:, None]
            seen.append(values)
        parts.append(torch.cat(seen, 1))
    columns_of = torch.stack(parts, 2)
    count = attrs.get("group", 1)
    kernels = weight.flatten(2).chunk(count, 0)
    result = torch.cat(
        [
            torch.einsum("nckhw,ock->nohw", part, each)
            for part, each in zip(columns_of.chunk(count, 1), kernels, strict=True)
        ],
        1,
    )
    return result if bias is None else result + bias[:, None, None]


def _bilinear(image: Tensor, y: float, x: float) -> list[Tensor]:
    """The shares of the four elements around a place."""
    height, width = image.shape[1:]
    if not (-1 <= y <= height and -1 <= x <= width):
        return [image[:, 0, 0] * 0]
    y, x = min(max(y, 0.0), height - 1.0), min(max(x, 0.0), width - 1.0)
    top, left = math.floor(y), math.floor(x)
    shares = []
    for row, high in ((top, 1 - y + top), (min(top + 1, height - 1), y - top)):
        for column, wide in ((left, 1 - x + left), (min(left + 1, width - 1), x - left)):
            shares.append(image[:, row, column] * (high * wide))
    return shares


def _roi_align(attrs: Attributes, x: Tensor, rois: Tensor, images: Tensor) -> Tensor:
    half = attrs.get("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    bins = attrs.get("output_height", 1), attrs.get("output_width", 1)
    ratio, results = attrs["sampling_ratio"], []
    for roi, at in zip(rois.tolist(), images.tolist(), strict=True):
        left, top, right, bottom = (v * attrs.get("spatial_scale", 1.0) - half / 2 for v in roi)
        sizes = [bottom - top, right - left]
        sizes = sizes if half else [max(size, 1.0) for size in sizes]
        steps = [size / count / ratio for size, count in zip(sizes, bins, strict=True)]
        for p in range(bins[0] * bins[1]):
            shares = []
            for s in range(ratio * ratio):
                row = (p // bins[1]) * ratio + s // ratio + 0.5
                column = (p % bins[1]) * ratio + s % ratio + 0.5
                shares += _bilinear(x[at], top + row * steps[0], left + column * steps[1])
            stacked = torch.stack(shares)
            largest = attrs.get("mode", "avg") == "max"
            results.append(stacked.amax(0) if largest else stacked.sum(0) / ratio**2)
    return torch.stack(results).reshape(len(rois), *bins, x.shape[1]).permute(0, 3, 1, 2)


def _max_roi_pool(attrs: Attributes, x: Tensor, rois: Tensor) -> Tensor:
    bins, scale, results = attrs["pooled_shape"], attrs.get("spatial_scale", 1.0), []
    for at, *edges in rois.tolist():
        left, top, right, bottom = (math.floor(edge * scale + 0.5) for edge in edges)
        steps = max(bottom - top + 1, 1) / bins[0], max(right - left + 1, 1) / bins[1]
        for p in range(bins[0] * bins[1]):
            cuts = []
            for i, (first, place) in enumerate(((top, p // bins[1]), (left, p % bins[1]))):
                ends = (
                    math.floor(place * steps[i]) + first,
                    math.ceil((place + 1) * steps[i]) + first,
                )
                low, high = (min(max(end, 0), x.shape[i + 2]) for end in ends)
                cuts.append(slice(low, high))
            part = x[int(at), :, cuts[0], cuts[1]].flatten(1)
            results.append(part.amax(1) if part.numel() else x[0, :, 0, 0] * 0)
    return torch.stack(results).reshape(len(rois), *bins, x.shape[1]).permute(0, 3, 1, 2)


REGIONS = {
    "DeformConv": _deform_conv,
    "MaxRoiPool": _max_roi_pool,
    "RoiAlign": _roi_align,
}
