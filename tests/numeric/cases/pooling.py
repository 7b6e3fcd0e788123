"""Pooling."""

from typing import Any

import onnx

from tests.numeric.conftest import IMAGE, node_model

SIGNAL, VOLUME = (3, 4, 11), (2, 3, 5, 6, 4)


def pool(op_type: str, kernel: list[int], **attributes: Any) -> onnx.ModelProto:
    """Pooling of a signal, an image or a volume, by the length of the kernel."""
    shape = {1: SIGNAL, 2: IMAGE, 3: VOLUME}[len(kernel)]
    return node_model(op_type, shape, kernel_shape=kernel, **attributes)


CASES = {
    "AveragePool": pool("AveragePool", [2, 2], strides=[2, 2]),
    "AveragePool-pad": pool("AveragePool", [3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    "AveragePool-counted": pool("AveragePool", [3, 3], pads=[1, 1, 1, 1], count_include_pad=1),
    "AveragePool-same": pool("AveragePool", [3, 3], strides=[2, 2], auto_pad="SAME_UPPER"),
    "AveragePool-ceil-counted": pool(
        "AveragePool",
        [3, 3],
        strides=[3, 4],
        pads=[1, 0, 0, 1],
        ceil_mode=1,
        count_include_pad=1,
    ),
    "AveragePool-dilated": pool(
        "AveragePool", [2, 2], dilations=[2, 3], pads=[1, 0, 1, 0], strides=[2, 1], opset=19
    ),
    "AveragePool-1d": pool("AveragePool", [3], strides=[2], pads=[1, 0]),
    "AveragePool-3d": pool("AveragePool", [2, 3, 2], strides=[2, 2, 1], pads=[0, 1, 0, 1, 1, 1]),
    "GlobalAveragePool": node_model("GlobalAveragePool", IMAGE),
    "GlobalAveragePool-1d": node_model("GlobalAveragePool", SIGNAL),
    "GlobalMaxPool": node_model("GlobalMaxPool", IMAGE),
    "LpPool": pool("LpPool", [2, 3], strides=[2, 1], pads=[0, 1, 1, 0]),
    "LpPool-1d": pool("LpPool", [3], p=1),
    "MaxPool": pool("MaxPool", [2, 2], strides=[2, 2]),
    "MaxPool-pad": pool("MaxPool", [3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    "MaxPool-ceil": pool("MaxPool", [3, 3], strides=[2, 2], ceil_mode=1),
    "MaxPool-dilated": pool("MaxPool", [2, 3], dilations=[3, 2], pads=[0, 1, 1, 1]),
    "MaxPool-1d": pool("MaxPool", [3], strides=[2], dilations=[2], pads=[1, 0]),
    "MaxPool-3d": pool("MaxPool", [2, 3, 2], strides=[2, 2, 1], pads=[0, 1, 0, 1, 1, 1]),
}
