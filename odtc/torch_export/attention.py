"""PyTorch's attention in simpler terms, which both exporters write as they are.

Of a query whose keys all have minus infinity in their mask, PyTorch's attention gives zeros. Its
TorchScript exporter writes that for boolean masks alone, and NaN for those that are added; the one
by `torch.export` writes the mean of the values or NaN. `nn.MultiheadAttention` adds what is
padding to what is ahead, so that rows that are padded at their start have such queries.
"""

import contextlib
import math
import sys
from collections.abc import Iterator
from types import ModuleType

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

_ATTENTION = F.scaled_dot_product_attention


@contextlib.contextmanager
def spelled_out_attention() -> Iterator[None]:
    """A block in which `F.scaled_dot_product_attention` is computed by `spelled_out`.

    Modules that imported the function have it under names of their own, which are replaced as well.
    A `TorchFunctionMode` would see all calls, but the tracer's warnings would name its lines then.
    """
    modules = [each for name, each in sys.modules.items() if name != __name__]
    found = [
        (names, name)
        for names in [vars(each) for each in modules if isinstance(each, ModuleType)]
        for name, each in list(names.items())
        if each is _ATTENTION
    ]
    for names, name in found:
        names[name] = spelled_out
    try:
        yield
    finally:
        for names, name in found:
            names[name] = _ATTENTION


def spelled_out(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """`F.scaled_dot_product_attention`, with its arguments, of products and a softmax."""
    if enable_gqa:
        groups = query.shape[-3] // key.shape[-3]
        key, value = _repeated(key, groups), _repeated(value, groups)
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = (query * factor) @ key.transpose(-2, -1)
    if attn_mask is not None:
        probabilities = torch.softmax(scores + _added(attn_mask, scores), -1)
        # Where the mask hides all keys the softmax is NaN.
        probabilities = probabilities.masked_fill(probabilities.isnan(), 0.0)
    elif is_causal:
        ahead = torch.ones(scores.shape[-2:], device=scores.device).tril() == 0
        probabilities = torch.softmax(scores + _added(~ahead, scores), -1)
    else:
        probabilities = torch.softmax(scores, -1)
    if dropout_p:
        probabilities = F.dropout(probabilities, dropout_p, training=True)
    return probabilities @ value


def _added(mask: Tensor, scores: Tensor) -> Tensor:
    """What is added to scores: of a boolean mask, minus infinity where it hides a key."""
    if mask.dtype != torch.bool:
        return mask
    return torch.zeros((), dtype=scores.dtype, device=scores.device).masked_fill(~mask, -math.inf)


def _repeated(tensor: Tensor, groups: int) -> Tensor:
    """Each head of keys or values once for each query's that shares it."""
    *lead, heads, steps, size = tensor.shape
    apart = tensor.unsqueeze(-3).expand(*lead, heads, groups, steps, size)
    return apart.reshape(*lead, heads * groups, steps, size)
