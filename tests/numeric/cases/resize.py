"""Resizing, in the forms that PyTorch has; all of ONNX's are in `test_resize.py`."""

from typing import Any

import numpy as np
import onnx

from tests.numeric.conftest import IMAGE, ints, node_model


def resize(
    shape: tuple[int, ...],
    *,
    scales: list[float] | None = None,
    sizes: list[int] | None = None,
    opset: int = 19,
    **attributes: Any,
) -> onnx.ModelProto:
    """A Resize by scales or to sizes, of the spatial dimensions."""
    others = [] if "axes" in attributes else [1, 1]
    constants = {"": np.zeros(0, np.float32)}
    if scales is not None:
        constants["scales"] = np.array([*others, *scales], np.float32)
    if sizes is not None:
        constants["scales"] = np.zeros(0, np.float32)
        constants["sizes"] = ints(*shape[: len(others)], *sizes)
    return node_model("Resize", shape, constants=constants, opset=opset, **attributes)


NEAREST = {
    "mode": "nearest",
    "coordinate_transformation_mode": "asymmetric",
    "nearest_mode": "floor",
}

CASES = {
    "DepthToSpace": node_model("DepthToSpace", (2, 8, 3, 2), blocksize=2),
    "DepthToSpace-CRD": node_model("DepthToSpace", (2, 8, 3, 2), blocksize=2, mode="CRD"),
    "Resize": resize(IMAGE, scales=[2.0, 2.0], mode="linear"),
    "Resize-corners": resize(
        IMAGE, sizes=[5, 11], mode="linear", coordinate_transformation_mode="align_corners"
    ),
    "Resize-nearest": resize(IMAGE, sizes=[14, 9], **NEAREST),
    "Resize-cubic": resize(IMAGE, sizes=[5, 13], mode="cubic"),
    "Resize-1d": resize((3, 4, 7), scales=[3.0], mode="linear"),
    "Resize-3d": resize((2, 3, 3, 2, 4), scales=[2.0, 2.0, 1.0], mode="linear"),
    "SpaceToDepth": node_model("SpaceToDepth", (2, 3, 4, 6), blocksize=2),
    "Upsample": node_model(
        "Upsample", IMAGE, constants={"s": np.array([1, 1, 2, 3], np.float32)}, opset=9
    ),
}
