"""Convolutions."""

from tests.numeric.conftest import IMAGE, node_model, weight

CASES = {
    "Conv": node_model(
        "Conv", IMAGE, parameters={"w": weight(5, 4, 3, 3), "b": weight(5)}, pads=[1, 1, 1, 1]
    ),
    "Conv-stride": node_model(
        "Conv", IMAGE, parameters={"w": weight(5, 4, 3, 3)}, pads=[0, 1, 1, 0], strides=[2, 2]
    ),
    "Conv-1x1": node_model("Conv", IMAGE, parameters={"w": weight(5, 4, 1, 1)}),
    "Conv-1x1-stride": node_model(
        "Conv", IMAGE, parameters={"w": weight(5, 4, 1, 1)}, strides=[2, 2]
    ),
    "Conv-group": node_model(
        "Conv", IMAGE, parameters={"w": weight(6, 2, 3, 3)}, group=2, pads=[1, 1, 1, 1]
    ),
    "Conv-depthwise": node_model(
        "Conv", IMAGE, parameters={"w": weight(4, 1, 3, 3)}, group=4, strides=[2, 2]
    ),
    "Conv-same": node_model(
        "Conv", IMAGE, parameters={"w": weight(5, 4, 3, 3)}, strides=[2, 2], auto_pad="SAME_LOWER"
    ),
    "Conv-valid": node_model("Conv", IMAGE, parameters={"w": weight(5, 4, 3, 2)}, auto_pad="VALID"),
}
