"""Windows of convolutions and pooling in one form: padding as numbers, and at least two axes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from odtc.frontend.operators.operator import Emit, Expand, Node


@dataclass(frozen=True)
class Windows:
    """How windows walk over an image, per axis.

    Attributes:
        sizes: of the image.
        kernel: taps of a window.
        strides: steps of the window.
        dilations: steps inside the window.
        pads: elements in front of the image on each axis, then after it.
    """

    sizes: tuple[int, ...]
    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    pads: list[int]

    @property
    def spans(self) -> list[int]:
        """Elements from the first to the last tap."""
        return [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True)]


def windows_of(node: Node, weight: int = 1) -> Windows:
    """The windows of a node, with ONNX's defaults.

    Args:
        node: a convolution or pooling.
        weight: the slot of a convolution's weight, which has the kernel's shape.
    """
    sizes = node.shape()[2:]
    ones = [1] * len(sizes)
    return Windows(
        sizes,
        list(node.attrs.get("kernel_shape") or node.shape(weight)[2:]),
        list(node.attrs.get("strides") or ones),
        list(node.attrs.get("dilations") or ones),
        list(node.attrs.get("pads") or 2 * [0] * len(sizes)),
    )


def one_to_three_axes(node: Node) -> str:
    """1 to 3 spatial axes: rank 3 to 5."""
    if 3 <= node.rank() <= 5:
        return ""
    return f"1 to 3 spatial axes are supported (rank 3 to 5); the input has rank {node.rank()}"


def fits(node: Node, weight: int = 1) -> str:
    """A window must not be larger than the image with its padding."""
    windows, mode = windows_of(node, weight), node.attrs.get("auto_pad", "NOTSET")
    pads = windows.pads if mode == "NOTSET" else pads_by(mode, windows)
    axes = len(windows.sizes)
    for axis, (size, span) in enumerate(zip(windows.sizes, windows.spans, strict=True)):
        padded = size + pads[axis] + pads[axis + axes]
        if span > padded:
            return (
                f"the window spans {span} elements of spatial axis {axis}, on which the image has "
                f"{padded} with its padding"
            )
    return ""


def first_of(*expansions: Expand) -> Expand:
    """The first of the expansions that applies; expansion goes on until none does."""

    def expand(node: Node, emit: Emit) -> Any:
        return next((r for each in expansions if (r := each(node, emit)) is not None), None)

    return expand


def explicit_pads(node: Node, emit: Emit) -> str | None:
    """SAME and VALID padding become numbers: TVM's importer would insert a Pad."""
    mode = node.attrs.get("auto_pad", "NOTSET")
    if mode == "NOTSET":
        return None
    kept: dict[str, Any] = {k: v for k, v in node.attrs.items() if k not in ("auto_pad", "pads")}
    return emit(node.proto.op_type, *node.inputs, pads=pads_by(mode, windows_of(node)), **kept)


def pads_by(mode: str, windows: Windows) -> list[int]:
    """The padding that a mode of `auto_pad` stands for."""
    total = [
        max((-(-n // s) - 1) * s + span - n, 0) if mode.startswith("SAME") else 0
        for n, s, span in zip(windows.sizes, windows.strides, windows.spans, strict=True)
    ]
    return split_pads(total, more_behind=mode == "SAME_UPPER")


def split_pads(total: list[int], *, more_behind: bool) -> list[int]:
    """Halves of the padding, all in front and then all after; an odd element goes to one side."""
    small, large = [t // 2 for t in total], [t - t // 2 for t in total]
    return small + large if more_behind else large + small


# What an axis of size 1 in front has for each attribute of a window.
_ONE_MORE: dict[str, Callable[[list[int]], list[int]]] = {
    "kernel_shape": lambda given: [1, *given],
    "strides": lambda given: [1, *given],
    "dilations": lambda given: [1, *given],
    "output_padding": lambda given: [0, *given],
    "pads": lambda given: [0, given[0], 0, given[1]],
}


def as_image(node: Node, emit: Emit) -> str | None:
    """One spatial axis becomes the width of an image of height 1; its kernels too."""
    shape = node.output_shape()
    if node.rank() != 3 or shape is None:
        return None
    inputs = [
        emit("Reshape", name, _with_height(node.shape(slot))) if node.rank(slot) == 3 else name
        for slot, name in enumerate(node.inputs)
    ]
    attrs = {k: _ONE_MORE[k](v) if k in _ONE_MORE else v for k, v in node.attrs.items()}
    return emit("Reshape", emit(node.proto.op_type, *inputs, **attrs), np.array(shape, np.int64))


def _with_height(shape: tuple[int, ...]) -> np.ndarray:
    return np.array([*shape[:2], 1, shape[2]], np.int64)
