"""Layers whose past is a state of fixed size: linear attention, and the convolution before it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from odtc.frontend.graph import onnx_dtype
from odtc.frontend.operators.forms import concat, reshape, slice_axis, split_evenly
from odtc.frontend.operators.operator import Emit, Node, Operator

# Inputs of LinearAttention: query, key, value, past_state, decay, beta.
_PAST, _DECAY, _BETA = 3, 4, 5
# A dozen nodes stand for a step; longer sequences would take minutes to compile.
MOST_STEPS = 256
_RULES = {"linear": (), "gated": (_DECAY,), "delta": (_BETA,), "gated_delta": (_DECAY, _BETA)}


@dataclass(frozen=True)
class _Sizes:
    """Of the heads of keys and values, each shared by so many of the queries."""

    batch: int
    steps: int
    heads: int
    shared: int
    width: int
    depth: int


def _sizes(node: Node) -> _Sizes:
    queries, heads = node.attrs["q_num_heads"], node.attrs["kv_num_heads"]
    batch, steps, hidden = node.shape()
    depth = node.shape(2)[2] // heads
    return _Sizes(batch, steps, heads, queries // heads, hidden // queries, depth)


def _can_attend(node: Node) -> str:
    """The inputs' shapes must be known, with at most 256 steps; the rule's inputs must be there."""
    if any(name not in node.graph.shapes for name in node.inputs if name):
        return "the inputs' shapes are not static"
    rule = _rule(node)
    if rule not in _RULES:
        return f"the rule {rule!r} is unknown"
    if [slot for slot in (_DECAY, _BETA) if node.has(slot)] != list(_RULES[rule]):
        return f"the rule {rule!r} takes other inputs"
    steps = node.shape()[1]
    return "" if steps <= MOST_STEPS else f"it has {steps} steps, over {MOST_STEPS}"


def _rule(node: Node) -> str:
    return node.attrs.get("update_rule", "gated_delta")


def _attention(node: Node, emit: Emit) -> list[str]:
    """A step after the other: the state decays, takes the step's key and value, and is read."""
    of = _sizes(node)
    parts = [_steps(node, emit, slot, of.steps) for slot in range(6)]
    state = _single(node, emit, _PAST)
    scale = node.attrs.get("scale") or 1 / math.sqrt(of.width)
    given = []
    for query, key, value, _, decay, beta in zip(*parts, strict=True):
        across = reshape(emit, key, of.batch, of.heads, of.width, 1)
        new = reshape(emit, value, of.batch, of.heads, 1, of.depth)
        if decay and state:
            # One number for a head, or one for each row of its state.
            factor = emit("Exp", reshape(emit, decay, of.batch, of.heads, -1, 1))
            state = emit("Mul", state, factor)
        if beta:
            new = _corrected(node, emit, (state, key, new, beta))
        write = emit("Mul", across, new)
        state = emit("Add", state, write) if state else write
        apart = reshape(emit, query, of.batch, of.heads, of.shared, of.width)
        read = emit("MatMul", emit("Mul", apart, np.float32(scale)), state)
        given.append(reshape(emit, read, of.batch, 1, of.heads * of.shared * of.depth))
    dtypes = node.dtype(), node.dtype(_PAST if node.has(_PAST) else 0)
    results = concat(emit, given, 1), state
    return [_rounded(emit, name, dtype) for name, dtype in zip(results, dtypes, strict=True)]


def _corrected(node: Node, emit: Emit, given: tuple[str, str, str, str]) -> str:
    """The part of the value that the state does not give for the key yet, times the update rate."""
    of, (state, key, value, beta) = _sizes(node), given
    if state:
        row = reshape(emit, key, of.batch, of.heads, 1, of.width)
        value = emit("Sub", value, emit("MatMul", row, state))
    return emit("Mul", value, reshape(emit, beta, of.batch, -1, 1, 1))


def _single(node: Node, emit: Emit, slot: int) -> str:
    """An input in single precision; empty where it is left out."""
    if not node.has(slot):
        return ""
    name = node.inputs[slot]
    return name if node.dtype(slot) == "float32" else emit("Cast", name, to=onnx.TensorProto.FLOAT)


def _rounded(emit: Emit, name: str, dtype: str) -> str:
    return name if dtype == "float32" else emit("Cast", name, to=onnx_dtype(dtype))


def _steps(node: Node, emit: Emit, slot: int, steps: int) -> Sequence[str]:
    """The steps of an input; those of one that is left out, and of the state, are empty."""
    if slot == _PAST or not node.has(slot):
        return [""] * steps
    return split_evenly(node, emit, _single(node, emit, slot), 1, steps, 1)


def _can_convolve(node: Node) -> str:
    """The inputs' shapes must be known; no state without elements can be read."""
    if any(name not in node.graph.shapes for name in node.inputs if name):
        return "the inputs' shapes are not static"
    if node.attrs.get("activation", "none") not in ("none", "silu", "swish"):
        return f"the activation {node.attrs['activation']!r} is unknown"
    empty = node.shape(1)[2] == 1 and node.is_read(1)
    return "a kernel of one has no state" if empty else ""


def _convolution(node: Node, emit: Emit) -> list[str]:
    """Each channel on its own, over the last steps; zeros stand before the first."""
    data, weights = node.inputs[:2]
    (batch, channels, _), behind = node.shape(), node.shape(1)[2] - 1
    pads = [behind, 0]
    if behind and (node.has(3) or node.is_read(1)):
        zeros = np.zeros((batch, channels, behind), node.dtype())
        data = emit("Concat", node.inputs[3] if node.has(3) else zeros, data, axis=2)
        pads = [0, 0]
    bias = [node.inputs[2]] if node.has(2) else []
    result = emit("Conv", data, weights, *bias, group=channels, pads=pads)
    if node.attrs.get("activation", "none") != "none":
        result = emit("Mul", result, emit("Sigmoid", result))
    if not node.is_read(1):
        return [result]
    steps = node.shape()[2] + behind
    return [result, slice_axis(node, emit, data, 2, steps - behind, steps)]


OPERATORS: dict[str, Operator] = {
    "CausalConvWithState": Operator(condition=_can_convolve, expand=_convolution),
    "LinearAttention": Operator(condition=_can_attend, expand=_attention),
}
