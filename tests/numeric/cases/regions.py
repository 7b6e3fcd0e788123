"""Regions of images, and windows that are bent; MaxRoiPool is in `test_regions.py`."""

from typing import Any

import numpy as np
import onnx

from tests.numeric.conftest import ints, text_model, weight

FEATURES = (2, 3, 6, 5)
# Left, top, right, bottom in thirds, some of them outside.
REGIONS = np.array([[0, 0, 10, 12], [3, 2, 13, 20], [-6, 4, 5, 5], [7, 9, 7, 8]])


def align(**attributes: Any) -> onnx.ModelProto:
    """Four regions of two images into six bins."""
    given = {"output_height": 2, "output_width": 3, "sampling_ratio": 2, **attributes}
    text = ", ".join(
        f'{k} = "{v}"' if isinstance(v, str) else f"{k} = {v}" for k, v in given.items()
    )
    return text_model(
        f"f = Cast <to=1> (i) r = Mul (f, third) a = RoiAlign <{text}> (h, r, at) "
        "y = Reshape (a, rows)",
        FEATURES,
        constants={
            "i": REGIONS,
            "third": np.float32(1 / 3),
            "at": ints(0, 1, 1, 0),
            "rows": ints(2, -1),
        },
    )


def deform(inputs: str, **parameters: np.ndarray) -> onnx.ModelProto:
    """A convolution with two groups, windows of 2 by 3 taps and two offset groups."""
    return text_model(
        "y = DeformConv <group = 2, offset_group = 2, kernel_shape = [2, 3], strides = [2, 1], "
        f"dilations = [1, 2], pads = [1, 0, 1, 2]> (h, {inputs})",
        (2, 4, 5, 4),
        parameters=parameters,
        opset=19,
    )


def _wide(*shape: int) -> np.ndarray:
    return 1.5 * weight(*shape)


CASES = {
    "DeformConv": deform("w, o", w=weight(6, 2, 2, 3), o=_wide(2, 24, 3, 2)),
    "DeformConv-mask": deform(
        "w, o, b, m",
        w=weight(6, 2, 2, 3),
        o=_wide(2, 24, 3, 2),
        b=weight(6),
        m=weight(2, 12, 3, 2),
    ),
    "RoiAlign": align(),
    "RoiAlign-output": align(
        coordinate_transformation_mode="output_half_pixel", spatial_scale=1.5, sampling_ratio=1
    ),
    "RoiAlign-max": align(mode="max"),
}
