"""Padding."""

import numpy as np

from tests.numeric.conftest import IMAGE, ints, node_model

FRAME = {"pads": ints(0, 0, 2, 1, 0, 0, 0, 3)}

CASES = {
    "CenterCropPad": node_model(
        "CenterCropPad", IMAGE, constants={"s": ints(3, 7, 4, 9)}, opset=18
    ),
    "CenterCropPad-axes": node_model(
        "CenterCropPad", IMAGE, constants={"s": ints(4, 7)}, opset=18, axes=[-2, 1]
    ),
    "Pad": node_model("Pad", IMAGE, constants=FRAME),
    "Pad-attribute": node_model("Pad", IMAGE, pads=[0, 1, 0, 2, 0, 0, 1, 0], opset=10),
    "Pad-axes": node_model(
        "Pad",
        IMAGE,
        constants={"pads": ints(1, 2, 0, 1), "v": np.float32(0.5), "axes": ints(3, 1)},
        opset=18,
    ),
    "Pad-edge": node_model("Pad", IMAGE, constants=FRAME, mode="edge"),
    "Pad-reflect": node_model("Pad", IMAGE, constants=FRAME, mode="reflect"),
    "Pad-wrap": node_model("Pad", IMAGE, constants=FRAME, mode="wrap", opset=19),
}
