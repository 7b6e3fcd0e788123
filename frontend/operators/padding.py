"""Padding of windows: ONNX's `auto_pad` as numbers."""

from typing import Any

from odtc.frontend.operators.operator import Emit, Node


def explicit_pads(node: Node, emit: Emit) -> str | None:
    """SAME and VALID padding become numbers: TVM's importer would insert a Pad."""
    mode = node.attrs.get("auto_pad", "NOTSET")
    if mode == "NOTSET":
        return None
    kept: dict[str, Any] = {k: v for k, v in node.attrs.items() if k not in ("auto_pad", "pads")}
    return emit(node.proto.op_type, *node.inputs, pads=_pads(node, mode), **kept)


def _pads(node: Node, mode: str) -> list[int]:
    data = node.shape()[2:]
    kernel = node.attrs.get("kernel_shape") or node.shape(1)[2:]
    strides = node.attrs.get("strides") or [1] * len(data)
    dilations = node.attrs.get("dilations") or [1] * len(data)
    total = [
        max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0) if mode.startswith("SAME") else 0
        for n, k, s, d in zip(data, kernel, strides, dilations, strict=True)
    ]
    small, large = [t // 2 for t in total], [t - t // 2 for t in total]
    return large + small if mode == "SAME_LOWER" else small + large
