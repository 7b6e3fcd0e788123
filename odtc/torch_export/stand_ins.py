"""Parts of a module that ONNX has no node for, computed by others while it is exported.

Stochastic depth (Huang et al. 2016) draws a number for each sample, Dropout2d one for each channel:
that is dropout of as many ones, and as a Dropout node it trains, and is left out of inference. What
an embedding looks up of its padding row is zero times a word, so that nothing trains the row. A
batch normalisation in inference mode, in a module that trains, scales and shifts by numbers that
do not change: as a BatchNormalization node it would be trained by the statistics of the batch.
Attention is spelled out, as both exporters write it for some masks only.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from odtc.torch_export.attention import spelled_out_attention
from odtc.torch_export.watching.gradients import padding_is_kept, shared_tensors

Forward = Callable[[Tensor], Tensor]
# SELU's limit at minus infinity.
_SATURATED = -1.7580993408473766


@contextlib.contextmanager
def stand_ins(module: nn.Module) -> Iterator[None]:
    """A block in which such parts compute in another way; their classes are not touched."""
    shared = shared_tensors(module)
    changed = [(part, other) for part in module.modules() if (other := _other(part, shared))]
    flags: list[Any] = [part for part in module.modules() if _drops_in_place(part)]
    try:
        for part, forward in changed:
            part.forward = forward
        for part in flags:
            # PyTorch's newer exporter decomposes a dropout in place into random numbers.
            part.inplace = False
        with spelled_out_attention():
            yield
    finally:
        for part, _ in changed:
            del part.forward
        for part in flags:
            part.inplace = True


def _other(part: nn.Module, shared: set[int]) -> Forward | None:
    """Returns the forward to export in place of a part's; None where it is exported as it is."""
    if "forward" in vars(part):
        return None
    if part.training and _is_drop_path(part):
        ratio = float(getattr(part, "drop_prob", None) or getattr(part, "p", None) or 0.0)
        return _dropped(ratio, 1, scaled=bool(getattr(part, "scale_by_keep", True)))
    if part.training and isinstance(part, nn.Dropout1d | nn.Dropout2d | nn.Dropout3d):
        return _dropped(part.p, 2)
    if part.training and isinstance(part, nn.AlphaDropout | nn.FeatureAlphaDropout):
        rank = 2 if isinstance(part, nn.FeatureAlphaDropout) else None
        return _alpha_dropped(part.p, rank) if part.p < 1 else None
    is_norm = isinstance(part, nn.modules.batchnorm._BatchNorm)
    if is_norm and not part.training and part.running_mean is not None:
        return _fixed_norm(part)
    return _padded(part) if padding_is_kept(part, shared) else None


def _padded(part: Any) -> Forward:
    """An embedding whose padding row, which is zeros, has no gradient."""

    def forward(ids: Tensor) -> Tensor:
        is_word = (ids != part.padding_idx).unsqueeze(-1).to(part.weight.dtype)
        return F.embedding(ids, part.weight) * is_word

    return forward


def _is_drop_path(part: nn.Module) -> bool:
    """Torchvision's StochasticDepth, timm's DropPath, and those of transformers."""
    name = type(part).__name__
    return (name == "StochasticDepth" and getattr(part, "mode", "") == "row") or (
        name.endswith("DropPath") and hasattr(part, "drop_prob")
    )


def _dropped(ratio: float, rank: int, *, scaled: bool = True) -> Forward:
    """Dropout of whole slices, one for each index of the first so many dimensions."""

    def forward(x: Tensor, *_) -> Tensor:
        if not ratio:
            return x
        shape = (*x.shape[:rank], *(1 for _ in x.shape[rank:]))
        kept = F.dropout(x.new_ones(shape), ratio, training=True)
        return x * (kept if scaled else kept * (1 - ratio))

    return forward


def _alpha_dropped(ratio: float, rank: int | None) -> Forward:
    """Dropout for SELU (Klambauer et al. 2017): dropped elements saturate, and the moments stay.

    Args:
        ratio: of dropped elements, below 1.
        rank: how many dimensions have an index of their own; all if None.
    """
    keep = 1 - ratio
    slope = (keep * (1 + ratio * _SATURATED**2)) ** -0.5
    low = slope * _SATURATED

    def forward(x: Tensor, *_) -> Tensor:
        if not ratio:
            return x
        own = x.ndim if rank is None else rank
        shape = (*x.shape[:own], *(1 for _ in x.shape[own:]))
        # Zero or one in training; in inference `keep`, where the last factor makes x of the sum.
        kept = F.dropout(x.new_ones(shape), ratio, training=True) * keep
        rest = kept * (1 - kept) * ((1 - slope * keep) / (keep * ratio))
        return x * (slope * kept + rest) + (low * (1 - kept) - low * ratio)

    return forward


def _fixed_norm(part: Any) -> Forward:
    def forward(x: Tensor) -> Tensor:
        shape = (-1, *(1 for _ in x.shape[2:]))
        factor = torch.rsqrt(part.running_var + part.eps)
        factor = factor if part.weight is None else factor * part.weight
        shift = -part.running_mean * factor
        shift = shift if part.bias is None else shift + part.bias
        return x * factor.reshape(shape) + shift.reshape(shape)

    return forward


def _drops_in_place(part: nn.Module) -> bool:
    return isinstance(part, nn.modules.dropout._DropoutNd) and part.inplace
