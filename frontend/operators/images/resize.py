"""Operators that change the size of an image: resampling, and rearranging channels."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import relax

from odtc.frontend.axis_map import apply_axis_map
from odtc.frontend.operators.images.resample import (
    COORDINATES,
    FILTERS,
    NEAREST,
    Axis,
    Method,
    axis_map,
)
from odtc.frontend.operators.operator import Emit, Node, Operator


def method_of(node: Node) -> Method:
    """How a Resize or Upsample node resizes.

    Before opset 11 there is no choice: an index is divided by the scale, and rounded down.
    """
    attrs = node.attrs
    mode = attrs.get("mode", "nearest")
    # Upsample also says bilinear.
    mode = "linear" if mode == "bilinear" else mode
    if node.opset < 11:
        return Method(mode, "asymmetric", "floor")
    return Method(
        mode,
        attrs.get("coordinate_transformation_mode", "half_pixel"),
        attrs.get("nearest_mode", "round_prefer_floor"),
        attrs.get("cubic_coeff_a", -0.75),
        bool(attrs.get("exclude_outside", 0)),
        bool(attrs.get("antialias", 0)),
    )


def _axes(node: Node) -> list[int]:
    listed = node.attrs.get("axes")
    return [axis % node.rank() for axis in listed] if listed else list(range(node.rank()))


def _given(node: Node, name: str, slot: int) -> list[float] | None:
    """The scales or sizes of a node; an empty tensor stands for none."""
    value = node.attrs.get(name)
    if value is None:
        constant = node.constant(slot)
        value = None if constant is None else np.ravel(constant).tolist()
    return value or None


def resized_axes(node: Node) -> dict[int, Axis]:
    """The axes that a node resizes, by dimension."""
    shape, result, axes = node.shape(), node.output_shape(), _axes(node)
    assert result is not None
    scales = _given(node, "scales", 1 if node.opset < 11 else 2)
    sizes = _given(node, "sizes", 3)
    if scales is None and sizes is not None:
        scales = [size / shape[axis] for size, axis in zip(sizes, axes, strict=True)]
        choose = {"not_larger": min, "not_smaller": max}.get(
            node.attrs.get("keep_aspect_ratio_policy", "stretch")
        )
        scales = [choose(scales)] * len(axes) if choose else scales
    if scales is None:
        scales = [result[axis] / shape[axis] for axis in axes]
    return {
        axis: Axis(shape[axis], result[axis], float(scale))
        for axis, scale in zip(axes, scales, strict=True)
        if scale != 1 or shape[axis] != result[axis]
    }


def _resize(node: Node) -> str:
    """The output's shape must be known; only float32."""
    if node.output_shape() is None:
        return "the output's shape is not static"
    method = method_of(node)
    known = {
        "mode": (method.mode, {"nearest", *FILTERS}),
        "coordinate_transformation_mode": (method.coordinates, set(COORDINATES)),
        "nearest_mode": (method.nearest, set(NEAREST)),
    }
    refused = [f"{name}={value}" for name, (value, names) in known.items() if value not in names]
    if refused:
        return f"{', '.join(refused)} is not supported"
    return "" if node.dtype() == "float32" else f"only float32 is supported, not {node.dtype()}"


def _convert(builder: relax.BlockBuilder, node: Node, inputs: Sequence[Any]) -> relax.Expr:
    """One axis after the other, what gets smaller first."""
    data, axes = inputs[0], resized_axes(node)
    for axis in sorted(axes, key=lambda each: axes[each].result / axes[each].size):
        data = apply_axis_map(builder, data, axis, axis_map(axes[axis], method_of(node)))
    return data


def _depth_to_space(node: Node, emit: Emit) -> str:
    batch, channels, rows, columns = node.shape()
    block = node.attrs["blocksize"]
    depth = channels // block**2
    if node.attrs.get("mode", "DCR") == "DCR":
        view, order = (batch, block, block, depth, rows, columns), [0, 3, 4, 1, 5, 2]
    else:
        view, order = (batch, depth, block, block, rows, columns), [0, 1, 4, 2, 5, 3]
    result = (batch, depth, rows * block, columns * block)
    return _rearranged(node, emit, view, order, result)


def _space_to_depth(node: Node, emit: Emit) -> str:
    batch, channels, rows, columns = node.shape()
    block = node.attrs["blocksize"]
    view = (batch, channels, rows // block, block, columns // block, block)
    order = [0, 3, 5, 1, 2, 4] if node.attrs.get("mode", "DCR") == "DCR" else [0, 1, 3, 5, 2, 4]
    result = (batch, channels * block**2, rows // block, columns // block)
    return _rearranged(node, emit, view, order, result)


def _rearranged(
    node: Node, emit: Emit, view: Sequence[int], order: list[int], result: Sequence[int]
) -> str:
    split = emit("Reshape", node.inputs[0], np.array(view, np.int64))
    return emit("Reshape", emit("Transpose", split, perm=order), np.array(result, np.int64))


OPERATORS: dict[str, Operator] = {
    "DepthToSpace": Operator(expand=_depth_to_space),
    "Resize": Operator(condition=_resize, convert=_convert),
    "SpaceToDepth": Operator(expand=_space_to_depth),
    "Upsample": Operator(condition=_resize, convert=_convert),
}
