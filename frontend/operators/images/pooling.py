"""Pooling: windows of two axes, to which all other forms are brought."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.frontend.operators.images.patches import STEPS_SINCE
from odtc.frontend.operators.images.pooled_indices import with_indices
from odtc.frontend.operators.images.windows import (
    Windows,
    as_image,
    explicit_pads,
    first_of,
    fits,
    one_to_three_axes,
    pads_by,
    windows_of,
)
from odtc.frontend.operators.operator import Convert, Emit, Expand, Node, Operator
from odtc.frontend.operators.reduction import reduce

# Added to sums of powers, so that their root has a gradient where all elements are zero.
TINY = 1e-30


def _pool(node: Node) -> str:
    """1 to 3 spatial axes; indices need a Slice with steps."""
    if node.is_read(1) and node.opset < STEPS_SINCE:
        return f"the Indices output is supported from opset {STEPS_SINCE} on, not {node.opset}"
    return one_to_three_axes(node) or fits(node) or _empty_window(node)


def _empty_window(node: Node) -> str:
    """With `ceil_mode`, ONNX leaves out a window that would start in the padding after the image.

    Its shape inference, and what runs by it, does not.
    """
    shape = node.output_shape()
    if not node.attrs.get("ceil_mode") or shape is None:
        return ""
    windows = windows_of(node)
    pads = _reaching_pads(windows)
    axes = range(len(windows.sizes))
    reach = [windows.sizes[i] + pads[i] + pads[i + len(axes)] - windows.spans[i] for i in axes]
    counts = [reach[i] // windows.strides[i] + 1 for i in axes]
    if counts == list(shape[2:]):
        return ""
    return f"ceil_mode leaves {counts} windows that start inside, the model says {list(shape[2:])}"


def _indexed(node: Node, emit: Emit) -> Sequence[str] | None:
    """The indices of a max pooling are searched on their own."""
    if not node.is_read(1) or node.output_shape() is None:
        return None
    mode = node.attrs.get("auto_pad", "NOTSET")
    windows = windows_of(node)
    if mode != "NOTSET":
        windows = replace(windows, pads=pads_by(mode, windows))
    pads = _reaching_pads(windows) if node.attrs.get("ceil_mode") else windows.pads
    return with_indices(node, emit, windows, pads)


def _one_axis_after_the_others(node: Node, emit: Emit) -> str | None:
    """Windows of three axes: the inner two, and then the outer one over their results.

    A largest element, and a mean over the elements of a box that are inside, can be taken so; of
    equal elements the first one stays the first.
    """
    shape = node.output_shape()
    if node.rank() != 5 or shape is None:
        return None
    batch, channels, depth, *sizes = node.shape()
    windows, op_type = windows_of(node), node.proto.op_type
    kept = {k: v for k, v in node.attrs.items() if k in ("ceil_mode", "count_include_pad")}

    def pool(data: str, shape: Sequence[int], axes: list[int | None]) -> str:
        """Pools an image of `shape` over two axes of the windows; None is an axis as it is."""

        def pick(values: Sequence[int], default: int) -> list[int]:
            return [default if axis is None else values[axis] for axis in axes]

        attrs = {
            "kernel_shape": pick(windows.kernel, 1),
            "strides": pick(windows.strides, 1),
            "pads": pick(windows.pads[:3], 0) + pick(windows.pads[3:], 0),
        }
        if any(step != 1 for step in windows.dilations):
            attrs["dilations"] = pick(windows.dilations, 1)
        image = emit("Reshape", data, np.array(shape, np.int64))
        return emit(op_type, image, **attrs, **kept)

    planes = pool(node.inputs[0], (batch, channels * depth, *sizes), [1, 2])
    flat = int(np.prod(shape[3:]))
    pooled = pool(planes, (batch, channels, depth, flat), [0, None])
    return emit("Reshape", pooled, np.array(shape, np.int64))


def _reaching_pads(windows: Windows) -> list[int]:
    """The padding with which `ceil_mode` is not needed: more at the end, for the last window.

    A window that would start after the image is left out.
    """
    axes = range(len(windows.sizes))
    behind = []
    for i in axes:
        size, span, stride = windows.sizes[i], windows.spans[i], windows.strides[i]
        before, after = windows.pads[i], windows.pads[i + len(axes)]
        count = -(-(size + before + after - span) // stride) + 1
        count -= (count - 1) * stride >= size + before
        behind.append(max((count - 1) * stride + span - size - before, 0))
    return [*windows.pads[: len(axes)], *behind]


def _floor_mode(node: Node, emit: Emit) -> str | None:
    """`ceil_mode` becomes padding."""
    if not node.attrs.get("ceil_mode"):
        return None
    windows = windows_of(node)
    pads = _reaching_pads(windows)
    attrs = {k: v for k, v in node.attrs.items() if k not in ("ceil_mode", "storage_order")}
    pooled = emit(node.proto.op_type, node.inputs[0], **(attrs | {"pads": pads}))
    if not node.attrs.get("count_include_pad"):
        return pooled
    # What is past the padding is not counted.
    taps = float(np.prod(windows.kernel))
    factors = (taps / _counts(windows, pads, counted=windows.pads)).astype(np.float32)
    return pooled if np.all(factors == 1) else emit("Mul", pooled, factors)


def _counts(windows: Windows, pads: list[int], counted: list[int]) -> np.ndarray:
    """How many elements a mean is over, for each position of a window.

    Args:
        windows: of two axes.
        pads: by which the windows' positions follow.
        counted: padding that counts as elements.
    """
    per_axis = []
    for i, size in enumerate(windows.sizes):
        last = size + pads[i] + pads[i + 2] - windows.spans[i]
        starts = np.arange(0, last + 1, windows.strides[i]) - pads[i]
        taps = starts[:, None] + windows.dilations[i] * np.arange(windows.kernel[i])
        inside = (taps >= -counted[i]) & (taps < size + counted[i + 2])
        per_axis.append(inside.sum(1))
    return np.outer(*per_axis)


def _dilated_mean(node: Node, emit: Emit) -> str | None:
    """A mean over every other element: a convolution of each plane by ones, over the counts."""
    windows, shape = windows_of(node), node.output_shape()
    if all(step == 1 for step in windows.dilations) or shape is None:
        return None
    pads = _reaching_pads(windows) if node.attrs.get("ceil_mode") else windows.pads
    counted = windows.pads if node.attrs.get("count_include_pad") else [0] * 4
    sums = _window_sums(node, emit, node.inputs[0], pads)
    shares = (1 / _counts(windows, pads, counted)).astype(np.float32)
    return emit("Mul", emit("Reshape", sums, np.array(shape, np.int64)), shares)


def _window_sums(node: Node, emit: Emit, data: str, pads: list[int]) -> str:
    """Sums over windows, `[samples * channels, 1, *sizes]`."""
    batch, channels, *sizes = node.shape()
    windows = windows_of(node)
    planes = emit("Reshape", data, np.array((batch * channels, 1, *sizes), np.int64))
    return emit(
        "Conv",
        planes,
        np.ones((1, 1, *windows.kernel), np.float32),
        strides=windows.strides,
        dilations=windows.dilations,
        pads=pads,
    )


def _lp_pool(node: Node, emit: Emit) -> str | None:
    """The p-th root of the sum of p-th powers over windows of two or three axes."""
    shape = node.output_shape()
    if node.rank() < 4 or shape is None:
        return None
    windows = windows_of(node)
    pads = _reaching_pads(windows) if node.attrs.get("ceil_mode") else windows.pads
    p = node.attrs.get("p", 2)
    sums = _window_sums(node, emit, _power(emit, node.inputs[0], p), pads)
    return emit("Reshape", _root(emit, sums, p), np.array(shape, np.int64))


def _power(emit: Emit, name: str, p: float) -> str:
    if p == 2:
        return emit("Mul", name, name)
    size = emit("Abs", name)
    return size if p == 1 else emit("Pow", size, float(p))


def _root(emit: Emit, name: str, p: float) -> str:
    if p == 1:
        return name
    kept = emit("Add", name, TINY)
    return emit("Sqrt", kept) if p == 2 else emit("Pow", kept, 1 / float(p))


def _global_average(node: Node, emit: Emit) -> str:
    return reduce(node, emit, "ReduceMean", node.inputs[0], list(range(2, node.rank())))


def _global_lp(node: Node, emit: Emit) -> str:
    p = node.attrs.get("p", 2)
    powers = _power(emit, node.inputs[0], p)
    return _root(emit, reduce(node, emit, "ReduceSum", powers, list(range(2, node.rank()))), p)


def _global_max(node: Node, emit: Emit) -> str:
    """One window as large as the image."""
    batch, channels, *sizes = node.shape()
    count = int(np.prod(sizes))
    image = emit("Reshape", node.inputs[0], np.array((batch, channels, count, 1), np.int64))
    largest = emit("MaxPool", image, kernel_shape=[count, 1])
    result = (batch, channels, *[1 for _ in sizes])
    return emit("Reshape", largest, np.array(result, np.int64))


def _converter(build: Callable[..., relax.Expr], *flags: str) -> Convert:
    """Converter of a pooling operator over two axes, rounded down."""

    def convert(_: relax.BlockBuilder, node: Node, inputs: Sequence[Any]) -> relax.Expr:
        windows = windows_of(node)
        return build(
            inputs[0],
            pool_size=windows.kernel,
            strides=windows.strides,
            padding=windows.pads,
            dilation=windows.dilations,
            **{flag: bool(node.attrs.get(flag, 0)) for flag in flags},
        )

    return convert


def _windowed(*expansions: Expand) -> Expand:
    return first_of(explicit_pads, as_image, _one_axis_after_the_others, *expansions)


OPERATORS: dict[str, Operator] = {
    "AveragePool": Operator(
        condition=_pool,
        expand=_windowed(_dilated_mean, _floor_mode),
        convert=_converter(R.nn.avg_pool2d, "count_include_pad"),
    ),
    "GlobalAveragePool": Operator(expand=_global_average),
    "GlobalLpPool": Operator(expand=_global_lp),
    "GlobalMaxPool": Operator(expand=_global_max),
    "LpPool": Operator(condition=_pool, expand=first_of(explicit_pads, as_image, _lp_pool)),
    "MaxPool": Operator(
        condition=_pool,
        expand=first_of(_indexed, _windowed(_floor_mode)),
        convert=_converter(R.nn.max_pool2d),
    ),
}
