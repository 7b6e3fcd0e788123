"""ONNX's operators that read images between their elements, as PyTorch functions."""

from typing import Any

import torch.nn.functional as F  # noqa: N812
from torch import Tensor

Attributes = dict[str, Any]

_MODES = {"linear": "bilinear", "cubic": "bicubic", "nearest": "nearest"}


def _grid_sample(attrs: Attributes, x: Tensor, grid: Tensor) -> Tensor:
    mode = attrs.get("mode", "linear")
    padding = attrs.get("padding_mode", "zeros")
    aligned = bool(attrs.get("align_corners", 0))
    return F.grid_sample(x, grid, _MODES[mode], padding, aligned)


def _affine_grid(attrs: Attributes, theta: Tensor, size: Tensor) -> Tensor:
    return F.affine_grid(theta, size.tolist(), bool(attrs.get("align_corners", 0)))


SAMPLING = {
    "AffineGrid": _affine_grid,
    "GridSample": _grid_sample,
}
