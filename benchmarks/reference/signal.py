"""ONNX's Fourier transforms, and layers with a state, as PyTorch functions."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

Attributes = dict[str, Any]


def _complex(x: Tensor) -> Tensor:
    """Complex numbers of those whose parts lie in the last dimension."""
    return torch.complex(x[..., 0], x[..., 1] if x.shape[-1] == 2 else torch.zeros_like(x[..., 0]))


def _dft(
    attrs: Attributes, x: Tensor, length: Tensor | None = None, axis: Tensor | None = None
) -> Tensor:
    along = attrs.get("axis", -2) if axis is None else int(axis)
    along, size = along % x.ndim, None if length is None else int(length)
    numbers, onesided = _complex(x), attrs.get("onesided")
    if attrs.get("inverse"):
        if onesided:
            return torch.fft.irfft(numbers, size, along)[..., None]
        return torch.view_as_real(torch.fft.ifft(numbers, size, along))
    found = torch.fft.fft(numbers, size, along)
    if onesided:
        found = found.narrow(along, 0, found.shape[along] // 2 + 1)
    return torch.view_as_real(found)


def _stft(
    attrs: Attributes,
    x: Tensor,
    step: Tensor,
    window: Tensor | None = None,
    length: Tensor | None = None,
) -> Tensor:
    size = int(length) if length is not None else window.numel() if window is not None else 0
    frames = _complex(x).unfold(1, size, int(step))
    found = torch.fft.fft(frames if window is None else frames * window)
    if attrs.get("onesided", 1):
        found = found[..., : size // 2 + 1]
    return torch.view_as_real(found)


def _linear_attention(
    attrs: Attributes,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    state: Tensor | None = None,
    decay: Tensor | None = None,
    beta: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    count, heads = attrs["q_num_heads"], attrs["kv_num_heads"]
    q, (k, v) = query.unflatten(2, (count, -1)), (x.unflatten(2, (heads, -1)) for x in (key, value))
    scale = attrs.get("scale") or q.shape[3] ** -0.5
    if state is None:
        state = torch.zeros(len(q), heads, k.shape[3], v.shape[3], dtype=q.dtype)
    results = []
    for step in range(q.shape[1]):
        if decay is not None:
            state = state * decay[:, step].unflatten(1, (heads, -1))[..., None].exp()
        new = v[:, step]
        if beta is not None:
            known = torch.einsum("bhkv,bhk->bhv", state, k[:, step])
            new = beta[:, step, :, None] * (new - known)
        state = state + k[:, step, :, :, None] * new[:, :, None]
        each = state.repeat_interleave(count // heads, 1)
        results.append(scale * torch.einsum("bhk,bhkv->bhv", q[:, step], each).flatten(1))
    return torch.stack(results, 1), state


def _causal_convolution(
    attrs: Attributes,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    past: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    behind = weight.shape[2] - 1
    whole = F.pad(x, (behind, 0)) if past is None else torch.cat([past, x], 2)
    result = F.conv1d(whole, weight, bias, groups=x.shape[1])
    result = result if attrs.get("activation", "none") == "none" else F.silu(result)
    return result, whole[..., whole.shape[2] - behind :]


def _swiglu(attrs: Attributes, gate: Tensor, value: Tensor) -> Tensor:
    return gate * torch.sigmoid(attrs.get("alpha", 1.0) * gate) * value


SIGNAL: dict[str, Any] = {
    "CausalConvWithState": _causal_convolution,
    "DFT": _dft,
    "LinearAttention": _linear_attention,
    "STFT": _stft,
    "SwiGLU": _swiglu,
}
