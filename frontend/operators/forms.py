"""Nodes whose form depends on the opset, for the expansions of other operators."""

from collections.abc import Sequence

import numpy as np

from odtc.frontend.operators.operator import Emit, Node

# Since these opsets what was an attribute is an input.
_SLICE_INPUTS_SINCE, _SPLIT_INPUT_SINCE = 10, 13

# A kernel of many parts takes long to compile, and to run; kernels of few are shared.
GROUP = 16


def reshape(emit: Emit, data: str, *shape: int) -> str:
    """Emits a Reshape."""
    return emit("Reshape", data, np.array(shape, np.int64))


def slice_axis(node: Node, emit: Emit, data: str, axis: int, start: int, stop: int) -> str:
    """Emits `data[start:stop]` along one axis."""
    if node.opset < _SLICE_INPUTS_SINCE:
        return emit("Slice", data, starts=[start], ends=[stop], axes=[axis])
    return emit("Slice", data, *(np.array([each], np.int64) for each in (start, stop, axis)))


def split_axis(node: Node, emit: Emit, data: str, axis: int, sizes: Sequence[int]) -> Sequence[str]:
    """Emits a Split into parts of these sizes; one part is the data itself."""
    if len(sizes) == 1:
        return [data]
    if node.opset < _SPLIT_INPUT_SINCE:
        return emit.several("Split", len(sizes), data, axis=axis, split=list(sizes))
    return emit.several("Split", len(sizes), data, np.array(sizes, np.int64), axis=axis)


def split_evenly(
    node: Node, emit: Emit, data: str, axis: int, count: int, size: int
) -> Sequence[str]:
    """Emits Splits into `count` parts of `size`, at most `GROUP` parts at once."""
    if count <= GROUP:
        return split_axis(node, emit, data, axis, [size] * count)
    groups = [min(GROUP, count - start) for start in range(0, count, GROUP)]
    wide = split_axis(node, emit, data, axis, [size * parts for parts in groups])
    return [
        name
        for group, parts in zip(wide, groups, strict=True)
        for name in split_axis(node, emit, group, axis, [size] * parts)
    ]


def concat(emit: Emit, parts: Sequence[str], axis: int) -> str:
    """Emits Concats of at most `GROUP` parts at once; of one part it is the part itself."""
    while len(parts) > 1:
        parts = [_join(emit, parts[at : at + GROUP], axis) for at in range(0, len(parts), GROUP)]
    return parts[0]


def _join(emit: Emit, parts: Sequence[str], axis: int) -> str:
    return parts[0] if len(parts) == 1 else emit("Concat", *parts, axis=axis)
