"""Attention and rotary position embeddings as products, sums and a softmax."""

import functools
import math
from collections.abc import Sequence

import numpy as np
import onnx

from odtc.frontend.operators.forms import concat, reshape, slice_axis
from odtc.frontend.operators.operator import Emit, Node, Operator
from odtc.frontend.operators.reduction import reduce

# Inputs of Attention: Q, K, V, attn_mask, past_key, past_value, nonpad_kv_seqlen.
_MASK, _PAST, _LENGTHS = 3, 4, 6
# Its last output: scores, capped ones, those with what is added, or probabilities.
_CAPPED, _BIASED, _WEIGHTS = 1, 2, 3


def _supported(node: Node) -> str:
    """The inputs' shapes must be known; no lengths of keys beside those of the past."""
    if any(name not in node.graph.shapes for name in node.inputs if name):
        return "the inputs' shapes are not static"
    if node.has(_LENGTHS) and node.has(_PAST):
        return "nonpad_kv_seqlen is given together with past keys"
    return ""


def _attention(node: Node, emit: Emit) -> list[str]:
    """Y, the keys and values with those of the past, and the scores.

    Heads may share keys and values.
    """
    q, k, v = (_by_heads(node, emit, slot) for slot in range(3))
    batch, heads, queries, width = _head_shape(node, 0)
    _, shared, keys, _ = _head_shape(node, 1)
    past = node.shape(_PAST)[2] if node.has(_PAST) else 0
    if past:
        k = emit("Concat", node.inputs[_PAST], k, axis=2)
        v = emit("Concat", node.inputs[_PAST + 1], v, axis=2)
    keys += past
    present = [k, v]
    sizes = (batch, shared, heads // shared, keys)
    k, v = (
        _repeated(emit, name, (*sizes, _head_shape(node, slot)[3]))
        for slot, name in ((1, k), (2, v))
    )
    scale = math.sqrt(node.attrs.get("scale") or 1 / math.sqrt(width))
    k = emit("Transpose", emit("Mul", k, scale), perm=[0, 1, 3, 2])
    scores = emit("MatMul", emit("Mul", q, scale), k)
    capped = _capped(node, emit, scores)
    bias = _bias(node, emit, queries, keys, past)
    weights = _softmax(node, emit, capped, bias)
    result = emit("MatMul", weights, v)
    if node.rank() == 3:
        result = emit("Transpose", result, perm=[0, 2, 1, 3])
        result = reshape(emit, result, batch, queries, heads * _head_shape(node, 2)[3])
    if not node.is_read(3):
        return [result, *present]
    shown = {_CAPPED: capped, _WEIGHTS: weights}
    mode = node.attrs.get("qk_matmul_output_mode", 0)
    if mode == _BIASED:
        shown[mode] = capped if bias is None else emit("Add", capped, bias)
    return [result, *present, shown.get(mode, scores)]


def _head_shape(node: Node, slot: int) -> tuple[int, int, int, int]:
    """Batch, heads, steps and width of a head of Q, K or V."""
    if node.rank(slot) == 4:
        batch, heads, steps, width = node.shape(slot)
        return batch, heads, steps, width
    batch, steps, hidden = node.shape(slot)
    heads = node.attrs["kv_num_heads" if slot else "q_num_heads"]
    return batch, heads, steps, hidden // heads


def _by_heads(node: Node, emit: Emit, slot: int) -> str:
    if node.rank(slot) == 4:
        return node.inputs[slot]
    batch, heads, steps, width = _head_shape(node, slot)
    apart = reshape(emit, node.inputs[slot], batch, steps, heads, width)
    return emit("Transpose", apart, perm=[0, 2, 1, 3])


def _repeated(emit: Emit, name: str, sizes: tuple[int, int, int, int, int]) -> str:
    """Each head once for every head of the queries that shares it."""
    batch, shared, times, keys, width = sizes
    if times == 1:
        return name
    apart = reshape(emit, name, batch, shared, 1, keys, width)
    wide = emit("Expand", apart, np.array(sizes, np.int64))
    return reshape(emit, wide, batch, shared * times, keys, width)


def _capped(node: Node, emit: Emit, scores: str) -> str:
    cap = float(node.attrs.get("softcap", 0.0))
    return emit("Mul", emit("Tanh", emit("Div", scores, cap)), cap) if cap else scores


def _bias(node: Node, emit: Emit, queries: int, keys: int, past: int) -> np.ndarray | str | None:
    """The bias of the scores: -inf where a query must not see a key."""
    if node.has(_LENGTHS):
        allowed = _seen(node, emit, queries, keys)
        fixed = emit("Where", allowed, 0.0, -math.inf)
    else:
        fixed = _fixed_bias(node, queries, keys, past)
    if not node.has(_MASK):
        return fixed
    mask, missing = node.constant(_MASK), keys - node.shape(_MASK)[-1]
    blocked = np.array(-np.inf, node.dtype())
    if mask is not None:
        if mask.dtype == bool:
            mask = np.where(mask, np.zeros_like(blocked), blocked)
        wide = [(0, 0)] * (mask.ndim - 1) + [(0, missing)]
        mask = np.pad(mask, wide, constant_values=blocked)
        if isinstance(fixed, str):
            return emit("Add", fixed, mask)
        return mask if fixed is None else mask + fixed
    name = node.inputs[_MASK]
    if node.dtype(_MASK) == "bool":
        name = emit("Where", name, 0.0, -math.inf)
    if missing:
        rest = np.full((*node.shape(_MASK)[:-1], missing), blocked)
        name = emit("Concat", name, rest, axis=-1)
    return name if fixed is None else emit("Add", name, fixed)


def _fixed_bias(node: Node, queries: int, keys: int, past: int) -> np.ndarray | None:
    """The mask of the attributes: no key after the query, none outside of a window around it."""
    ahead = np.arange(keys)[None, :] - np.arange(queries)[:, None] - past
    allowed = np.ones_like(ahead, bool)
    for least, most in _windows(node):
        allowed &= (ahead >= least) & (ahead <= most)
    if allowed.all():
        return None
    return np.where(allowed, 0, -np.inf).astype(node.dtype())


def _windows(node: Node) -> list[tuple[float, float]]:
    """How far ahead of a query its keys may lie: the least and the most."""
    before, after = (node.attrs.get(f"{side}_window_size", -1) for side in ("left", "right"))
    found = [(-math.inf, 0)] if node.attrs.get("is_causal") else []
    found += [(-before, math.inf)] if before >= 0 else []
    return found + ([(-math.inf, after)] if after >= 0 else [])


def _seen(node: Node, emit: Emit, queries: int, keys: int) -> str:
    """Which key each query sees, where only so many keys of a sample are any.

    The last query stands beside the last of them.
    """
    place = np.arange(keys)[None, :]
    ahead = place - np.arange(queries)[:, None] + queries
    lengths = emit("Cast", node.inputs[_LENGTHS], to=onnx.TensorProto.INT64)
    lengths = reshape(emit, lengths, -1, 1, 1, 1)
    allowed = [emit("Less", place, lengths)]
    for least, most in _windows(node):
        if math.isfinite(most):
            allowed.append(emit("LessOrEqual", ahead - int(most), lengths))
        if math.isfinite(least):
            allowed.append(emit("GreaterOrEqual", ahead - int(least), lengths))
    return functools.reduce(lambda left, right: emit("And", left, right), allowed)


def _softmax(node: Node, emit: Emit, scores: str, bias: np.ndarray | str | None) -> str:
    """Softmax over the keys. A query that may see none gets zeros, and never a NaN on the way."""
    if bias is None:
        return emit("Softmax", scores, axis=-1)
    if isinstance(bias, str):
        most = reduce(node, emit, "ReduceMax", bias, [-1])
        dead = emit("Less", most, np.finfo(node.dtype()).min)
        bias = emit("Where", dead, 0.0, bias)
        return emit("Where", dead, 0.0, emit("Softmax", emit("Add", scores, bias), axis=-1))
    blind = np.isneginf(bias.max(-1, keepdims=True))
    bias = np.where(blind, np.zeros_like(bias), bias)
    weights = emit("Softmax", emit("Add", scores, bias), axis=-1)
    return emit("Where", blind, 0.0, weights) if blind.any() else weights


def _static(node: Node) -> str:
    """The inputs' shapes must be known."""
    known = all(name in node.graph.shapes for name in node.inputs if name)
    return "" if known else "the inputs' shapes are not static"


def _rotary(node: Node, emit: Emit) -> str:
    """Pairs of elements turn by an angle that grows with the position (Su et al., 2021)."""
    name, shape = node.inputs[0], node.shape()
    if len(shape) == 4:
        batch, heads, steps, width = shape
        name = emit("Transpose", name, perm=[0, 2, 1, 3])
    else:
        batch, steps, hidden = shape
        heads = node.attrs["num_heads"]
        width = hidden // heads
        name = reshape(emit, name, batch, steps, heads, width)
    turned = node.attrs.get("rotary_embedding_dim") or width
    rest = [slice_axis(node, emit, name, 3, turned, width)] if turned < width else []
    pairs = slice_axis(node, emit, name, 3, 0, turned) if rest else name
    rotated = _turn(node, emit, pairs, (batch, steps, heads, turned))
    result = concat(emit, [rotated, *rest], 3)
    if len(shape) == 4:
        return emit("Transpose", result, perm=[0, 2, 1, 3])
    return reshape(emit, result, *shape)


def _turn(node: Node, emit: Emit, name: str, shape: Sequence[int]) -> str:
    batch, steps, heads, turned = shape
    half = turned // 2
    pair_axis = 4 if node.attrs.get("interleaved") else 3
    apart = (batch, steps, heads, half, 2) if pair_axis == 4 else (batch, steps, heads, 2, half)
    pairs = reshape(emit, name, *apart)
    x, y = (slice_axis(node, emit, pairs, pair_axis, at, at + 1) for at in range(2))
    angle = [batch, steps, 1, half]
    angle.insert(pair_axis, 1)
    cos, sin = (reshape(emit, _cache(node, emit, slot), *angle) for slot in (1, 2))
    real = emit("Sub", emit("Mul", cos, x), emit("Mul", sin, y))
    imaginary = emit("Add", emit("Mul", sin, x), emit("Mul", cos, y))
    return reshape(emit, concat(emit, [real, imaginary], pair_axis), *shape)


def _cache(node: Node, emit: Emit, slot: int) -> str:
    """Cosines or sines [batch, steps, half] of the positions."""
    if not node.has(3):
        return node.inputs[slot]
    return emit("Gather", node.inputs[slot], node.inputs[3], axis=0)


OPERATORS: dict[str, Operator] = {
    "Attention": Operator(condition=_supported, expand=_attention),
    "RotaryEmbedding": Operator(condition=_static, expand=_rotary),
}
