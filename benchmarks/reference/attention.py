"""ONNX's attention, rotary embedding, Einstein sum and search as PyTorch functions."""

from typing import Any

import torch
from torch import Tensor

Attributes = dict[str, Any]


def _heads(x: Tensor, count: int | None) -> Tensor:
    return x if x.ndim == 4 or count is None else x.unflatten(2, (count, -1)).transpose(1, 2)


def _attention(
    attrs: Attributes, q: Tensor, k: Tensor, v: Tensor, *given: Tensor | None
) -> tuple[Tensor, ...]:
    mask, past_k, past_v, lengths = (*given, None, None, None, None)[:4]
    flat = q.ndim == 3
    q = _heads(q, attrs.get("q_num_heads"))
    k, v = (_heads(each, attrs.get("kv_num_heads")) for each in (k, v))
    past = 0 if past_k is None else past_k.shape[2]
    if past_k is not None and past_v is not None:
        k, v = torch.cat([past_k, k], 2), torch.cat([past_v, v], 2)
    present = (k, v)
    k, v = (each.repeat_interleave(q.shape[1] // each.shape[1], 1) for each in (k, v))
    scores = q @ k.transpose(2, 3) * (attrs.get("scale") or q.shape[3] ** -0.5)
    cap = attrs.get("softcap", 0.0)
    shown = [scores]
    scores = torch.tanh(scores / cap) * cap if cap else scores
    shown.append(scores)
    allowed = torch.ones(scores.shape, dtype=torch.bool)
    offsets = lengths - q.shape[2] if lengths is not None else torch.full((len(q),), past)
    for sample, offset in zip(allowed, offsets.tolist(), strict=True):
        if attrs.get("is_causal"):
            sample.tril_(offset)
        if lengths is not None:
            sample[..., offset + q.shape[2] :] = False
    if mask is not None and mask.dtype == torch.bool:
        allowed = allowed & mask
    elif mask is not None:
        scores = scores + mask
    weights = torch.softmax(scores.masked_fill(~allowed, -1e30), -1)
    weights = torch.where(allowed.any(-1, keepdim=True), weights, 0.0)
    shown += [scores.masked_fill(~allowed, -torch.inf), weights]
    result = weights @ v
    result = result.transpose(1, 2).flatten(2) if flat else result
    return result, *present, shown[attrs.get("qk_matmul_output_mode", 0)]


def _rotary(
    attrs: Attributes, x: Tensor, cos: Tensor, sin: Tensor, at: Tensor | None = None
) -> Tensor:
    heads = _heads(x, attrs.get("num_heads"))
    size = attrs.get("rotary_embedding_dim") or heads.shape[3]
    if at is not None:
        cos, sin = cos[at], sin[at]
    cos, sin = cos[:, None], sin[:, None]
    turned, rest = heads[..., :size], heads[..., size:]
    if attrs.get("interleaved"):
        a, b = turned[..., 0::2], turned[..., 1::2]
        parts = torch.stack([cos * a - sin * b, sin * a + cos * b], -1).flatten(3)
    else:
        a, b = turned.chunk(2, 3)
        parts = torch.cat([cos * a - sin * b, sin * a + cos * b], 3)
    result = torch.cat([parts, rest], 3)
    return result if x.ndim == 4 else result.transpose(1, 2).flatten(2)


def _place(attrs: Attributes, x: Tensor, sign: int) -> Tensor:
    axis, keep = attrs.get("axis", 0), bool(attrs.get("keepdims", 1))
    if not attrs.get("select_last_index"):
        return (sign * x).argmax(axis, keep)
    return x.shape[axis] - 1 - (sign * x).flip(axis).argmax(axis, keep)


def _top_k(attrs: Attributes, x: Tensor, k: Tensor) -> tuple[Tensor, ...]:
    return tuple(torch.topk(x, int(k), attrs.get("axis", -1), bool(attrs.get("largest", 1))))


ATTENTION: dict[str, Any] = {
    "ArgMax": lambda attrs, x: _place(attrs, x, 1),
    "ArgMin": lambda attrs, x: _place(attrs, x, -1),
    "Attention": _attention,
    "Einsum": lambda attrs, *xs: torch.einsum(attrs["equation"], *xs),
    "RotaryEmbedding": _rotary,
    "TopK": _top_k,
}
