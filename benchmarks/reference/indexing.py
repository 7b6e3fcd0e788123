"""ONNX operators that cut, repeat, read and write by index, as PyTorch functions."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

Attributes = dict[str, Any]


def _slice(
    attrs: Attributes,
    x: Tensor,
    starts: Tensor | None = None,
    ends: Tensor | None = None,
    axes: Tensor | None = None,
    steps: Tensor | None = None,
) -> Tensor:
    first = attrs["starts"] if starts is None else starts.tolist()
    last = attrs["ends"] if ends is None else ends.tolist()
    listed = attrs.get("axes", list(range(len(first)))) if axes is None else axes.tolist()
    strides = [1] * len(first) if steps is None else steps.tolist()
    for start, end, axis, step in zip(first, last, listed, strides, strict=True):
        taken = range(*slice(start, end, step).indices(x.shape[axis]))
        x = x.index_select(axis, torch.tensor(list(taken), dtype=torch.int64))
    return x


def _split(attrs: Attributes, x: Tensor, sizes: Tensor | None = None) -> tuple[Tensor, ...]:
    axis = attrs.get("axis", 0)
    given = attrs.get("split") if sizes is None else sizes.tolist()
    if given is not None:
        return torch.split(x, given, axis)
    count = attrs.get("num_outputs", attrs["outputs"])
    return torch.split(x, -(-x.shape[axis] // count), axis)


def _positive(indices: Tensor, size: int) -> Tensor:
    return torch.where(indices < 0, indices + size, indices)


def _gather(attrs: Attributes, x: Tensor, indices: Tensor) -> Tensor:
    axis = attrs.get("axis", 0) % x.ndim
    taken = x.index_select(axis, _positive(indices, x.shape[axis]).flatten())
    return taken.reshape(*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])


def _gather_elements(attrs: Attributes, x: Tensor, indices: Tensor) -> Tensor:
    axis = attrs.get("axis", 0)
    # PyTorch's gather wants the other dimensions no larger; so does ONNX.
    return torch.gather(x, axis, _positive(indices, x.shape[axis]))


def _coordinates(indices: Tensor) -> tuple[Tensor, ...]:
    return tuple(indices[..., at] for at in range(indices.shape[-1]))


def _gather_nd(attrs: Attributes, x: Tensor, indices: Tensor) -> Tensor:
    if not attrs.get("batch_dims"):
        return x[_coordinates(indices)]
    inner = attrs | {"batch_dims": attrs["batch_dims"] - 1}
    return torch.stack([_gather_nd(inner, a, i) for a, i in zip(x, indices, strict=True)])


_REDUCTIONS = {"add": "sum", "mul": "prod", "min": "amin", "max": "amax"}


def _scatter_elements(attrs: Attributes, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    axis = attrs.get("axis", 0)
    places = _positive(indices, x.shape[axis])
    reduction = _REDUCTIONS.get(attrs.get("reduction", "none"))
    if reduction is None:
        return x.scatter(axis, places, updates)
    return x.scatter_reduce(axis, places, updates, reduction)


def _scatter_nd(attrs: Attributes, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    reduction = attrs.get("reduction", "none")
    if reduction in ("none", "add"):
        return x.index_put(_coordinates(indices), updates, accumulate=reduction == "add")
    depth = indices.shape[-1]
    numbers = torch.arange(math.prod(x.shape[:depth])).reshape(x.shape[:depth])
    rows = x.flatten(0, depth - 1).reshape(numbers.numel(), -1)
    places = numbers[_coordinates(indices)].reshape(-1, 1).expand(-1, rows.shape[1])
    listed = updates.reshape(-1, rows.shape[1])
    return rows.scatter_reduce(0, places, listed, _REDUCTIONS[reduction]).reshape(x.shape)


def _tensor_scatter(
    attrs: Attributes, past: Tensor, update: Tensor, first: Tensor | None = None
) -> Tensor:
    axis = attrs.get("axis", -2) % past.ndim - 1
    starts = [0] * len(past) if first is None else first.tolist()
    steps = torch.arange(update.shape[axis + 1])
    rows = [
        row.index_copy(axis, (start + steps) % row.shape[axis], new)
        for row, start, new in zip(past, starts, update, strict=True)
    ]
    return torch.stack(rows)


def _cumprod(attrs: Attributes, x: Tensor, axis: Tensor) -> Tensor:
    dim = int(axis)
    x = x.flip(dim) if attrs.get("reverse") else x
    if attrs.get("exclusive"):
        x = torch.cat(
            [torch.ones_like(x.narrow(dim, 0, 1)), x.narrow(dim, 0, x.shape[dim] - 1)], dim
        )
    total = x.cumprod(dim)
    return total.flip(dim) if attrs.get("reverse") else total


def _cumsum(attrs: Attributes, x: Tensor, axis: Tensor) -> Tensor:
    dim = int(axis)
    x = x.flip(dim) if attrs.get("reverse") else x
    total = x.cumsum(dim) - (x if attrs.get("exclusive") else 0)
    return total.flip(dim) if attrs.get("reverse") else total


def _reverse_sequence(attrs: Attributes, x: Tensor, lengths: Tensor) -> Tensor:
    batched = x.transpose(0, 1) if attrs.get("batch_axis", 1) else x
    rows = [
        torch.cat([row[:n].flip(0), row[n:]])
        for row, n in zip(batched, lengths.tolist(), strict=True)
    ]
    result = torch.stack(rows)
    return result.transpose(0, 1) if attrs.get("batch_axis", 1) else result


def _trilu(attrs: Attributes, x: Tensor, k: Tensor | None = None) -> Tensor:
    diagonal = 0 if k is None else int(k)
    return (torch.triu if attrs.get("upper", 1) else torch.tril)(x, diagonal)


def _compress(attrs: Attributes, x: Tensor, condition: Tensor) -> Tensor:
    axis = attrs.get("axis")
    places = torch.from_numpy(np.flatnonzero(condition.numpy()))
    return x.flatten().index_select(0, places) if axis is None else x.index_select(axis, places)


def _expand(_: Attributes, x: Tensor, shape: Tensor) -> Tensor:
    return x.expand(torch.broadcast_shapes(x.shape, tuple(shape.tolist())))


def _one_hot(attrs: Attributes, indices: Tensor, depth: Tensor, values: Tensor) -> Tensor:
    size = int(depth)
    inside = (indices >= -size) & (indices < size)
    rows = torch.eye(size)[_positive(indices, size).clamp(0, size - 1)] * inside[..., None]
    hot = rows.movedim(-1, attrs.get("axis", -1))
    return values[0] + hot * (values[1] - values[0])


INDEXING = {
    "Compress": _compress,
    "CumProd": _cumprod,
    "CumSum": _cumsum,
    "Expand": _expand,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "OneHot": _one_hot,
    "ReverseSequence": _reverse_sequence,
    "Scatter": _scatter_elements,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "Slice": _slice,
    "Split": _split,
    "TensorScatter": _tensor_scatter,
    "Tile": lambda _, x, repeats: x.repeat(repeats.tolist()),
    "Trilu": _trilu,
}
