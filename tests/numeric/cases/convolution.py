"""Convolutions."""

from typing import Any

import onnx

from tests.numeric.conftest import IMAGE, node_model, weight

SIGNAL, VOLUME = (3, 4, 11), (2, 3, 5, 6, 4)


def conv(shape: tuple[int, ...], kernel: tuple[int, ...], **attributes: Any) -> onnx.ModelProto:
    """A convolution; `kernel` is the shape of its weight."""
    return node_model("Conv", shape, parameters={"w": weight(*kernel)}, **attributes)


def transposed(
    shape: tuple[int, ...], kernel: tuple[int, ...], **attributes: Any
) -> onnx.ModelProto:
    """A transposed convolution with a bias."""
    channels = kernel[1] * attributes.get("group", 1)
    parameters = {"w": weight(*kernel), "b": weight(channels)}
    return node_model("ConvTranspose", shape, parameters=parameters, **attributes)


CASES = {
    "Conv": node_model(
        "Conv", IMAGE, parameters={"w": weight(5, 4, 3, 3), "b": weight(5)}, pads=[1, 1, 1, 1]
    ),
    "Conv-stride": conv(IMAGE, (5, 4, 3, 3), pads=[0, 1, 1, 0], strides=[2, 2]),
    "Conv-1x1": conv(IMAGE, (5, 4, 1, 1)),
    "Conv-1x1-stride": conv(IMAGE, (5, 4, 1, 1), strides=[2, 2]),
    "Conv-group": conv(IMAGE, (6, 2, 3, 3), group=2, pads=[1, 1, 1, 1]),
    "Conv-depthwise": conv(IMAGE, (4, 1, 3, 3), group=4, strides=[2, 2]),
    "Conv-same": conv(IMAGE, (5, 4, 3, 3), strides=[2, 2], auto_pad="SAME_LOWER"),
    "Conv-valid": conv(IMAGE, (5, 4, 3, 2), auto_pad="VALID"),
    "Conv-dilated": conv(IMAGE, (5, 4, 3, 2), dilations=[2, 3], strides=[2, 1], pads=[1, 2, 1, 0]),
    "Conv-dilated-group": conv(
        IMAGE, (6, 2, 2, 3), dilations=[3, 2], strides=[1, 2], group=2, pads=[1, 0, 0, 1]
    ),
    "Conv-1d": node_model(
        "Conv",
        SIGNAL,
        parameters={"w": weight(5, 4, 3), "b": weight(5)},
        strides=[2],
        pads=[2, 0],
        dilations=[2],
    ),
    "Conv-1d-depthwise": conv(SIGNAL, (4, 1, 3), group=4, auto_pad="SAME_UPPER"),
    "Conv-3d": conv(VOLUME, (4, 3, 2, 3, 2), strides=[2, 1, 1], pads=[0, 1, 1, 1, 0, 0]),
    "Conv-3d-dilated-group": conv(
        VOLUME, (6, 1, 2, 2, 2), group=3, dilations=[2, 1, 1], strides=[1, 2, 2]
    ),
    "ConvTranspose": transposed(IMAGE, (4, 5, 3, 3)),
    "ConvTranspose-stride": transposed(
        IMAGE, (4, 5, 3, 2), strides=[2, 3], pads=[1, 0, 0, 1], output_padding=[1, 2]
    ),
    "ConvTranspose-dilated": transposed(
        IMAGE, (4, 5, 2, 3), strides=[1, 2], dilations=[3, 2], pads=[0, 1, 1, 1]
    ),
    "ConvTranspose-same": transposed(IMAGE, (4, 5, 3, 3), strides=[2, 2], auto_pad="SAME_UPPER"),
    "ConvTranspose-1d": transposed(SIGNAL, (4, 5, 4), strides=[2], pads=[1, 1]),
    "ConvTranspose-3d": transposed((2, 3, 3, 4, 3), (3, 2, 2, 3, 2), strides=[2, 1, 2]),
}
