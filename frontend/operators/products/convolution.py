"""Convolutions, of one to three axes."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.frontend.operators.images.padding import pad
from odtc.frontend.operators.images.windows import (
    Windows,
    as_image,
    explicit_pads,
    first_of,
    fits,
    one_to_three_axes,
    split_pads,
    windows_of,
)
from odtc.frontend.operators.operator import Convert, Emit, Node, Operator

_SPATIAL = {4: "HW", 5: "DHW"}
_CONV = {4: R.nn.conv2d, 5: R.nn.conv3d}
_CONV_TRANSPOSE = {4: R.nn.conv2d_transpose, 5: R.nn.conv3d_transpose}


def _converter(builds: dict[int, Callable[..., relax.Expr]], kernel: str, *extra: str) -> Convert:
    """Converter of an operator by the rank of its input, with the bias added apart."""

    def convert(builder: relax.BlockBuilder, node: Node, inputs: Sequence[Any]) -> relax.Expr:
        data, weight, bias = [*inputs, None][:3]
        rank, windows = len(data.ty.shape), windows_of(node)
        result = builds[rank](
            data,
            weight,
            strides=windows.strides,
            padding=windows.pads,
            dilation=windows.dilations,
            groups=node.attrs.get("group", 1),
            data_layout="NC" + _SPATIAL[rank],
            kernel_layout=kernel + _SPATIAL[rank],
            **{name: list(node.attrs[name]) for name in extra if name in node.attrs},
        )
        if bias is None:
            return result
        per_channel = builder.emit(R.reshape(bias, (1, -1, *[1] * (rank - 2))))
        return R.add(builder.emit(result), per_channel)

    return convert


def _explicit_transpose(node: Node, emit: Emit) -> str | None:
    """A target size and SAME padding become numbers.

    What the output is padded with beyond the stride, no window reaches: it is zero and the bias.
    """
    windows, attrs = windows_of(node), dict(node.attrs)
    axes = range(len(windows.sizes))
    pads, extra = _transpose_pads(node, windows)
    beyond = [max(extra[i] - windows.strides[i] + 1, 0) for i in axes]
    implicit = [attrs.pop("auto_pad", "NOTSET") != "NOTSET", attrs.pop("output_shape", None)]
    if not any(implicit) and not any(beyond):
        return None
    attrs |= {"pads": pads, "output_padding": [extra[i] - beyond[i] for i in axes]}
    if not any(beyond):
        return emit("ConvTranspose", *node.inputs, **attrs)
    result = emit("ConvTranspose", *node.inputs[:2], **attrs)
    padded = pad(node, emit, result, [0] * (4 + len(axes)) + beyond)
    if not node.has(2):
        return padded
    bias = np.array([-1, *[1 for _ in axes]], np.int64)
    return emit("Add", padded, emit("Reshape", node.inputs[2], bias))


def _transpose_pads(node: Node, windows: Windows) -> tuple[list[int], list[int]]:
    """Padding, and padding of the output, of a ConvTranspose."""
    extra = list(node.attrs.get("output_padding") or [0] * len(windows.sizes))
    mode = node.attrs.get("auto_pad", "NOTSET")
    target = node.attrs.get("output_shape")
    if target is None and mode == "NOTSET":
        return windows.pads, extra
    if target is None and mode == "VALID":
        return [0] * len(windows.pads), extra
    axes = range(len(windows.sizes))
    # With all dimensions or the spatial ones alone.
    goal = target[-len(axes) :] if target else [windows.sizes[i] * windows.strides[i] for i in axes]
    total = [
        windows.strides[i] * (windows.sizes[i] - 1) + extra[i] + windows.spans[i] - goal[i]
        for i in axes
    ]
    pads = split_pads([max(t, 0) for t in total], more_behind=mode == "SAME_UPPER")
    return pads, [extra[i] + max(-total[i], 0) for i in axes]


def _fitting(node: Node) -> str:
    """1 to 3 spatial axes: rank 3 to 5; the weight is of the input's channels, the window fits."""
    refused = one_to_three_axes(node)
    if refused or node.inputs[1] not in node.graph.shapes:
        return refused
    if node.rank(1) != node.rank():
        return f"the weight has rank {node.rank(1)}; the input has rank {node.rank()}"
    given, taken, groups = node.shape()[1], node.shape(1)[1], node.attrs.get("group", 1)
    if given != taken * groups:
        return f"the input has {given} channels; the weight takes {taken * groups}"
    kernel, window = node.attrs.get("kernel_shape"), list(node.shape(1)[2:])
    if kernel and list(kernel) != window:
        return f"kernel_shape is {list(kernel)}; the weight has windows of {window}"
    return fits(node)


OPERATORS: dict[str, Operator] = {
    "Conv": Operator(
        condition=_fitting,
        expand=first_of(explicit_pads, as_image),
        convert=_converter(_CONV, "OI"),
    ),
    "ConvTranspose": Operator(
        condition=one_to_three_axes,
        expand=first_of(_explicit_transpose, as_image),
        convert=_converter(_CONV_TRANSPOSE, "IO", "output_padding"),
    ),
}
