"""Images read at the positions of a grid."""

from typing import Any

import numpy as np
import onnx

from tests.numeric.conftest import ints, node_model, text_model, weight

PICTURE, VOLUME = (2, 3, 4, 5), (2, 2, 3, 4, 2)


def sample(shape: tuple[int, ...], result: tuple[int, ...], **attributes: Any) -> onnx.ModelProto:
    """A picture or volume at trained positions, some of them far outside."""
    grid = 1.6 * weight(shape[0], *result, len(shape) - 2, seed=3)
    return node_model("GridSample", shape, parameters={"w": grid}, opset=20, **attributes)


def transform(size: tuple[int, ...], **attributes: Any) -> onnx.ModelProto:
    """Affine transforms that come from the input."""
    rank = len(size) - 2
    constants = {"size": ints(size[0], 1, *size[2:])}
    return node_model(
        "AffineGrid", (size[0], rank, rank + 1), constants=constants, opset=20, **attributes
    )


CASES = {
    "AffineGrid": transform((2, 1, 3, 5)),
    "AffineGrid-corners": transform((2, 1, 4, 1), align_corners=1),
    "AffineGrid-3d": transform((2, 1, 3, 2, 4)),
    "GridSample": sample(PICTURE, (3, 2)),
    "GridSample-corners": sample(PICTURE, (3, 2), align_corners=1),
    "GridSample-border": sample(PICTURE, (3, 2), padding_mode="border"),
    "GridSample-reflection": sample(PICTURE, (3, 2), padding_mode="reflection"),
    "GridSample-reflection-corners": sample(
        PICTURE, (3, 2), padding_mode="reflection", align_corners=1
    ),
    "GridSample-nearest": sample(PICTURE, (3, 2), mode="nearest", padding_mode="reflection"),
    "GridSample-nearest-zeros": sample(PICTURE, (3, 2), mode="nearest"),
    "GridSample-cubic": sample(PICTURE, (3, 2), mode="cubic"),
    "GridSample-cubic-reflection": sample(PICTURE, (3, 2), mode="cubic", padding_mode="reflection"),
    "GridSample-cubic-corners": sample(
        (2, 1, 2, 3), (3, 2), mode="cubic", padding_mode="reflection", align_corners=1
    ),
    "GridSample-3d": sample(VOLUME, (2, 1, 3), padding_mode="border"),
    "GridSample-3d-nearest": sample(VOLUME, (2, 1, 3), mode="nearest"),
    "GridSample-affine": text_model(
        "g = AffineGrid (w, size) y = GridSample (h, g)",
        PICTURE,
        constants={"size": ints(*PICTURE)},
        parameters={"w": np.stack([np.eye(2, 3, dtype=np.float32)] * 2) + 0.3 * weight(2, 2, 3)},
        opset=20,
    ),
}
