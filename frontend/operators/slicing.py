"""Slices, reversals, and running sums and products along axes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.frontend.operators.forms import reshape, slice_axis
from odtc.frontend.operators.operator import Emit, Node, Operator


@dataclass(frozen=True)
class Span:
    """The elements of a slice along one axis: `start`, `start + step`, ..., `count` of them."""

    axis: int
    start: int
    count: int
    step: int

    def end(self, size: int) -> int:
        """The end as TVM reads it: after the first element, it lies beyond the negative size."""
        end = self.start + self.count * self.step
        return end if end >= 0 else -size - 1


def _constant_bounds(node: Node) -> str:
    """Starts, ends, axes and steps must be constant."""
    constant = node.ints("starts", 1) is not None and node.ints("ends", 2) is not None
    if not constant or any(node.has(slot) and node.constant(slot) is None for slot in (3, 4)):
        return "starts, ends, axes and steps must be constant"
    known = node.proto.input[0] in node.graph.shapes
    return "" if known else "the input's shape is not static"


def spans(node: Node) -> list[Span]:
    """The slices of each axis that a Slice does not take whole."""
    shape = node.shape()
    starts, ends = node.ints("starts", 1) or [], node.ints("ends", 2) or []
    axes = node.ints("axes", 3) or list(range(len(starts)))
    steps = node.ints("", 4) or [1] * len(starts)
    found = []
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        size = shape[axis]
        taken = range(*slice(start, end, step).indices(size))
        if taken != range(size):
            found.append(Span(axis % len(shape), taken.start, len(taken), step))
    return found


def _slice(_: relax.BlockBuilder, node: Node, inputs: Sequence[Any]) -> relax.Expr:
    taken, shape = spans(node), node.shape()
    if not taken:
        return inputs[0]
    return R.strided_slice(
        inputs[0],
        [span.axis for span in taken],
        [span.start for span in taken],
        [span.end(shape[span.axis]) for span in taken],
        [span.step for span in taken],
    )


def _constant_axis(node: Node) -> str:
    """The axis must be constant."""
    return "" if node.constant(1) is not None else "the axis must be constant"


def _flip(emit: Emit, data: str, axis: int) -> str:
    last, end = np.array([-1], np.int64), np.array([np.iinfo(np.int64).min], np.int64)
    return emit("Slice", data, last, end, np.array([axis], np.int64), last)


def _cumsum_backwards(node: Node, emit: Emit) -> str | None:
    """A sum from the end is one from the start of the reversed data."""
    if not node.attrs.get("reverse"):
        return None
    axis = (node.ints("", 1) or [0])[0]
    flipped = _flip(emit, node.inputs[0], axis)
    total = emit("CumSum", flipped, node.inputs[1], exclusive=node.attrs.get("exclusive", 0))
    return _flip(emit, total, axis)


def _cumsum(_: relax.BlockBuilder, node: Node, inputs: Sequence[Any]) -> relax.Expr:
    axis = (node.ints("", 1) or [0])[0] % node.rank()
    return R.cumsum(inputs[0], axis, exclusive=bool(node.attrs.get("exclusive")))


def _cumprod(node: Node, emit: Emit) -> str:
    """Products of 2, 4, 8, ... neighbours, so that zeros among them divide nothing."""
    shape, axis = node.shape(), (node.ints("", 1) or [0])[0] % node.rank()
    size, data = shape[axis], node.inputs[0]
    if node.attrs.get("reverse"):
        data = _flip(emit, data, axis)
    if node.attrs.get("exclusive"):
        ones = np.ones([1 if at == axis else n for at, n in enumerate(shape)], node.dtype())
        kept = [slice_axis(node, emit, data, axis, 0, size - 1)] if size > 1 else []
        data = emit("Concat", ones, *kept, axis=axis)
    reach = 1
    while reach < size:
        first, last = (
            slice_axis(node, emit, data, axis, *cut) for cut in ((0, reach), (reach, size))
        )
        product = emit("Mul", last, slice_axis(node, emit, data, axis, 0, size - reach))
        data, reach = emit("Concat", first, product, axis=axis), 2 * reach
    return _flip(emit, data, axis) if node.attrs.get("reverse") else data


def _constant_lengths(node: Node) -> str:
    """The lengths must be constant, and one for each sample."""
    lengths, shape = node.constant(1), node.graph.shapes.get(node.inputs[0])
    if lengths is None or shape is None:
        return "the lengths must be constant"
    samples = shape[node.attrs.get("batch_axis", 1)]
    return "" if lengths.size == samples else f"{lengths.size} lengths for {samples} samples"


def _reverse_sequence(node: Node, emit: Emit) -> str:
    """One Gather of the steps of all samples, which lie along the first two axes."""
    lengths, shape = np.array(node.ints("", 1)), node.shape()
    batch_axis = node.attrs.get("batch_axis", 1)
    samples, steps = shape[batch_axis], shape[1 - batch_axis]
    step, sample = np.arange(steps)[:, None], np.arange(samples)[None, :]
    source = np.where(step < lengths, lengths - 1 - step, step)
    flat = source * samples + sample if batch_axis else (sample * steps + source).T
    data = reshape(emit, node.inputs[0], samples * steps, *shape[2:])
    return reshape(emit, emit("Gather", data, flat.ravel().astype(np.int64), axis=0), *shape)


OPERATORS: dict[str, Operator] = {
    "CumProd": Operator(condition=_constant_axis, expand=_cumprod),
    "CumSum": Operator(condition=_constant_axis, expand=_cumsum_backwards, convert=_cumsum),
    "ReverseSequence": Operator(condition=_constant_lengths, expand=_reverse_sequence),
    "Slice": Operator(condition=_constant_bounds, convert=_slice),
}
