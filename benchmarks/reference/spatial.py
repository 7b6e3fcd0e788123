"""ONNX's operators over images, and normalisations, as PyTorch functions.

A function takes the node's attributes and its inputs, and returns the first output.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

Attributes = dict[str, Any]
Op = Callable[..., Tensor]
Pairs = list[tuple[int, int]]

_CONV = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}
_CONV_TRANSPOSE = {3: F.conv_transpose1d, 4: F.conv_transpose2d, 5: F.conv_transpose3d}
_MAX_POOL = {3: F.max_pool1d, 4: F.max_pool2d, 5: F.max_pool3d}
# PyTorch's bicubic wants four dimensions.
_LINEAR = {3: "linear", 4: "bilinear", 5: "trilinear"}


# --- windows: the geometry that convolution and pooling share -----------------------------------


def _per_axis(attrs: Attributes, name: str, x: Tensor, default: int = 1) -> list[int]:
    return list(attrs.get(name) or [default] * (x.ndim - 2))


def _window(attrs: Attributes, x: Tensor, kernel: Iterable[int]) -> list[tuple[int, int, int]]:
    """For each spatial dimension: padding before, padding after, and how far windows run past it.

    The third number is only non-zero with ceil_mode; it is negative where ONNX leaves out a last
    window that would start in the padding.
    """
    padding = []
    strides, dilations = (_per_axis(attrs, name, x) for name in ("strides", "dilations"))
    for axis, (size, taps) in enumerate(zip(x.shape[2:], kernel, strict=True)):
        stride, span = strides[axis], dilations[axis] * (taps - 1) + 1
        before, after = _pads(attrs, axis, x, stride, span)
        past = 0
        if attrs.get("ceil_mode", 0):
            count = -(-(size + before + after - span) // stride) + 1
            count -= (count - 1) * stride >= size + before
            past = (count - 1) * stride + span - (size + before + after)
        padding.append((before, after, past))
    return padding


def _pads(attrs: Attributes, axis: int, x: Tensor, stride: int, span: int) -> tuple[int, int]:
    """Padding before and after one dimension, from `pads` or `auto_pad`."""
    mode, size, rank = attrs.get("auto_pad", "NOTSET"), x.shape[axis + 2], x.ndim - 2
    if mode == "NOTSET":
        pads = attrs.get("pads") or [0] * (2 * rank)
        return pads[axis], pads[axis + rank]
    if mode == "VALID":
        return 0, 0
    total = max((math.ceil(size / stride) - 1) * stride + span - size, 0)
    small, large = total // 2, total - total // 2
    return (small, large) if mode == "SAME_UPPER" else (large, small)


def _pad(x: Tensor, padding: Pairs, value: float = 0.0) -> Tensor:
    """Pads the last dimensions; F.pad wants the last one first."""
    flat = [amount for pair in reversed(padding) for amount in pair]
    return F.pad(x, flat, value=value) if any(flat) else x


def _conv(attrs: Attributes, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    padding = [(before, after) for before, after, _ in _window(attrs, x, weight.shape[2:])]
    stride, dilation = _per_axis(attrs, "strides", x), _per_axis(attrs, "dilations", x)
    group = attrs.get("group", 1)
    return _CONV[x.ndim](_pad(x, padding), weight, bias, stride, 0, dilation, group)


def _conv_transpose(
    attrs: Attributes, x: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    """The transposed convolution without padding, of which the padding is then cut off."""
    stride, dilation = _per_axis(attrs, "strides", x), _per_axis(attrs, "dilations", x)
    full = _CONV_TRANSPOSE[x.ndim](x, weight, None, stride, 0, 0, attrs.get("group", 1), dilation)
    extra = _per_axis(attrs, "output_padding", x, 0)
    mode = attrs.get("auto_pad", "NOTSET")
    target = attrs.get("output_shape")
    if target is None and mode.startswith("SAME"):
        target = [size * step for size, step in zip(x.shape[2:], stride, strict=True)]
    cuts: Pairs = []
    for axis, length in enumerate(full.shape[2:]):
        if target is None:
            pads = attrs.get("pads") or [0] * (2 * (x.ndim - 2))
            before, after = pads[axis], pads[axis + x.ndim - 2]
        else:
            total = length + extra[axis] - target[axis - (x.ndim - 2)]
            # A target beyond the last window is padded after.
            half = max(total, 0) // 2
            before = half if mode == "SAME_UPPER" else max(total, 0) - half
            after = total - before
        cuts.append((-before, extra[axis] - after))
    result = _pad(full, cuts)
    return result if bias is None else result + bias.reshape(-1, *[1] * (x.ndim - 2))


def _max_pool(attrs: Attributes, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
    kernel = attrs["kernel_shape"]
    padding = [(before, after + past) for before, after, past in _window(attrs, x, kernel)]
    stride, dilation = _per_axis(attrs, "strides", x), _per_axis(attrs, "dilations", x)
    padded = _pad(x, padding, -math.inf)
    if attrs.get("outputs", 1) == 1:
        return _MAX_POOL[x.ndim](padded, kernel, stride, 0, dilation)
    found, places = _MAX_POOL[x.ndim](padded, kernel, stride, 0, dilation, return_indices=True)
    at = torch.unravel_index(places, padded.shape[2:])
    sizes = x.shape[2:]
    total = torch.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *[1 for _ in sizes])
    for index, (before, _), size in zip(at, padding, sizes, strict=True):
        total = total * size + index - before
    return found, total


def _window_sums(attrs: Attributes, x: Tensor, padding: Pairs) -> Tensor:
    """Sums over the windows of each channel, as a convolution by ones."""
    ones = x.new_ones(x.shape[1], 1, *attrs["kernel_shape"])
    stride, dilation = _per_axis(attrs, "strides", x), _per_axis(attrs, "dilations", x)
    return _CONV[x.ndim](_pad(x, padding), ones, None, stride, 0, dilation, x.shape[1])


def _average_pool(attrs: Attributes, x: Tensor) -> Tensor:
    """The mean over a window counts padding with count_include_pad, and never what is past it."""
    window = _window(attrs, x, attrs["kernel_shape"])
    pads = [(before, after) for before, after, _ in window]
    past = [(0, extra) for _, _, extra in window]
    counted = _pad(torch.ones_like(x), pads, float(attrs.get("count_include_pad", 0)))
    sums = _window_sums(attrs, _pad(x, pads), past)
    return sums / _window_sums(attrs, counted, past)


def _lp_pool(attrs: Attributes, x: Tensor) -> Tensor:
    window = _window(attrs, x, attrs["kernel_shape"])
    p = attrs.get("p", 2)
    padding = [(before, after + past) for before, after, past in window]
    return _window_sums(attrs, x.abs() ** p, padding) ** (1 / p)


def _spatial(x: Tensor) -> tuple[int, ...]:
    return tuple(range(2, x.ndim))


# --- normalisations -----------------------------------------------------------------------------


def _lrn(attrs: Attributes, x: Tensor) -> Tensor:
    size = attrs["size"]
    padded = F.pad(x * x, (*[0, 0] * (x.ndim - 2), (size - 1) // 2, size // 2))
    window_sum = padded.unfold(1, size, 1).sum(-1)
    base = attrs.get("bias", 1.0) + attrs.get("alpha", 1e-4) / size * window_sum
    return x / base ** attrs.get("beta", 0.75)


def _last_shape(attrs: Attributes, x: Tensor) -> list[int]:
    return list(x.shape[attrs.get("axis", -1) % x.ndim :])


def _layer_norm(attrs: Attributes, x: Tensor, scale: Tensor, bias: Tensor | None = None) -> Tensor:
    normal = F.layer_norm(x, _last_shape(attrs, x), eps=attrs.get("epsilon", 1e-5)) * scale
    return normal if bias is None else normal + bias


def _rms_norm(attrs: Attributes, x: Tensor, scale: Tensor) -> Tensor:
    return F.rms_norm(x, _last_shape(attrs, x), eps=attrs.get("epsilon", 1e-5)) * scale


def _group_norm(attrs: Attributes, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    groups = attrs.get("num_groups", x.shape[1])
    return F.group_norm(x, groups, scale, bias, eps=attrs.get("epsilon", 1e-5))


def _mean_variance(attrs: Attributes, x: Tensor) -> Tensor:
    axes = tuple(attrs.get("axes", [0, 2, 3]))
    centred = x - x.mean(axes, keepdim=True)
    return centred / (x.var(axes, unbiased=False, keepdim=True).sqrt() + 1e-9)


# --- padding and resizing -----------------------------------------------------------------------


def _onnx_pad(
    attrs: Attributes,
    x: Tensor,
    pads: Tensor | None = None,
    value: Tensor | None = None,
    axes: Tensor | None = None,
) -> Tensor:
    """Each axis by taking the elements that numpy's modes would copy."""
    amounts = attrs["pads"] if pads is None else pads.tolist()
    listed = range(x.ndim) if axes is None else [axis % x.ndim for axis in axes.tolist()]
    pairs = {axis: (amounts[i], amounts[i + len(listed)]) for i, axis in enumerate(listed)}
    mode = attrs.get("mode", "constant")
    if mode == "constant":
        fill = attrs.get("value", 0.0) if value is None else float(value)
        return _pad(x, [pairs.get(axis, (0, 0)) for axis in range(x.ndim)], fill)
    for axis, (before, after) in pairs.items():
        size = x.shape[axis]
        at = torch.arange(-before, size + after)
        period = 2 * (size - 1)
        chosen = {
            "edge": at.clamp(0, size - 1),
            "wrap": at % size,
            "reflect": torch.minimum(at % max(period, 1), -at % max(period, 1)),
        }[mode]
        x = x.index_select(axis, chosen)
    return x


def _resize(
    attrs: Attributes,
    x: Tensor,
    roi: Tensor | None = None,
    scales: Tensor | None = None,
    sizes: Tensor | None = None,
) -> Tensor:
    """The forms that PyTorch has; it works out the scale from the sizes."""
    del roi
    factors = None if scales is None or not scales.numel() else scales.tolist()[2:]
    if sizes is not None:
        target = [int(size) for size in sizes.tolist()[2:]]
    else:
        assert factors is not None
        target = [int(n * factor) for n, factor in zip(x.shape[2:], factors, strict=True)]
    coordinates = attrs.get("coordinate_transformation_mode", "half_pixel")
    mode = {"linear": _LINEAR[x.ndim], "cubic": "bicubic", "nearest": "nearest"}[
        attrs.get("mode", "nearest")
    ]
    if mode == "nearest":
        assert (coordinates, attrs.get("nearest_mode")) == ("asymmetric", "floor")
        return F.interpolate(x, target, mode=mode)
    assert coordinates in ("half_pixel", "pytorch_half_pixel", "align_corners")
    antialias = bool(attrs.get("antialias"))
    align = coordinates == "align_corners"
    return F.interpolate(x, target, mode=mode, align_corners=align, antialias=antialias)


def _depth_to_space(attrs: Attributes, x: Tensor) -> Tensor:
    block = attrs["blocksize"]
    if attrs.get("mode", "DCR") == "CRD":
        return F.pixel_shuffle(x, block)
    depth = x.shape[1] // block**2
    return F.pixel_shuffle(x.unflatten(1, (block**2, depth)).transpose(1, 2).flatten(1, 2), block)


def _space_to_depth(attrs: Attributes, x: Tensor) -> Tensor:
    block = attrs["blocksize"]
    apart = F.pixel_unshuffle(x, block).unflatten(1, (x.shape[1], block**2))
    return apart.transpose(1, 2).flatten(1, 2)


SPATIAL: dict[str, Callable[..., Any]] = {
    "AveragePool": _average_pool,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "DepthToSpace": _depth_to_space,
    "GlobalAveragePool": lambda _, x: x.mean(_spatial(x), keepdim=True),
    "GlobalLpPool": lambda attrs, x: x.norm(attrs.get("p", 2), _spatial(x), keepdim=True),
    "GlobalMaxPool": lambda _, x: x.amax(_spatial(x), keepdim=True),
    "GroupNormalization": _group_norm,
    "InstanceNormalization": _group_norm,
    "LRN": _lrn,
    "LayerNormalization": _layer_norm,
    "LpNormalization": lambda attrs, x: F.normalize(
        x, attrs.get("p", 2), attrs.get("axis", -1), eps=0.0
    ),
    "LpPool": _lp_pool,
    "MaxPool": _max_pool,
    "MeanVarianceNormalization": _mean_variance,
    "Pad": _onnx_pad,
    "RMSNormalization": _rms_norm,
    "Resize": _resize,
    "SpaceToDepth": _space_to_depth,
    "Upsample": lambda attrs, x, scales: _resize(
        attrs | {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
        x,
        None,
        scales,
    ),
}
