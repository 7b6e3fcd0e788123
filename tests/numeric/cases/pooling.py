"""Pooling."""

from tests.numeric.conftest import IMAGE, node_model

CASES = {
    "AveragePool": node_model("AveragePool", IMAGE, kernel_shape=[2, 2], strides=[2, 2]),
    "AveragePool-pad": node_model(
        "AveragePool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]
    ),
    "AveragePool-counted": node_model(
        "AveragePool", IMAGE, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1
    ),
    "AveragePool-same": node_model(
        "AveragePool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER"
    ),
    "GlobalAveragePool": node_model("GlobalAveragePool", IMAGE),
    "MaxPool": node_model("MaxPool", IMAGE, kernel_shape=[2, 2], strides=[2, 2]),
    "MaxPool-pad": node_model(
        "MaxPool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]
    ),
    "MaxPool-ceil": node_model("MaxPool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
}
