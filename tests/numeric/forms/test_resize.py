"""Resizing in all of ONNX's forms: values by ONNX's reference, gradients by the map's transpose.

Resizing is linear. So its gradient is right if its values are, and if the gradient of `p` is what
comes out of the transposed map, which is taken from the reference element by element.
"""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import odtc
from tests.fast import fast_if
from tests.numeric.cases.resize import resize
from tests.numeric.conftest import relative_error

SHAPE = (2, 2, 5, 4)
COORDINATES = (
    "align_corners",
    "asymmetric",
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
)
NEAREST = ("ceil", "floor", "round_prefer_ceil", "round_prefer_floor")

CASES: dict[str, dict[str, Any]] = {
    f"nearest-{coordinates}-{nearest}": {
        "mode": "nearest",
        "coordinate_transformation_mode": coordinates,
        "nearest_mode": nearest,
        "sizes": [8, 3],
    }
    for coordinates, nearest in itertools.product(COORDINATES, NEAREST)
}
CASES |= {
    f"{mode}-{coordinates}": {
        "mode": mode,
        "coordinate_transformation_mode": coordinates,
        # With scales, ONNX's reference aligns the corners to a size that is no whole number.
        **({"sizes": [8, 2]} if coordinates == "align_corners" else {"scales": [1.7, 0.6]}),
    }
    for mode, coordinates in itertools.product(("linear", "cubic"), COORDINATES)
}
CASES |= {
    "one-pixel": {
        "mode": "linear",
        "coordinate_transformation_mode": "pytorch_half_pixel",
        "sizes": [1, 7],
    },
    "exclude-outside": {"mode": "cubic", "exclude_outside": 1, "sizes": [7, 3]},
    "antialias": {"mode": "linear", "antialias": 1, "sizes": [2, 7]},
    "antialias-excluding": {
        "mode": "linear",
        "antialias": 1,
        "exclude_outside": 1,
        "sizes": [2, 3],
    },
    "antialias-cubic": {"mode": "cubic", "antialias": 1, "sizes": [2, 3]},
}
CASES |= {
    policy: {
        "mode": "linear",
        "sizes": [9, 9],
        "axes": [2, 3],
        "keep_aspect_ratio_policy": policy,
    }
    for policy in ("not_larger", "not_smaller")
}


def resized(model: onnx.ModelProto, images: np.ndarray) -> np.ndarray:
    """The reference's Resize alone, in double precision."""
    (node,) = [node for node in model.graph.node if node.op_type == "Resize"]
    tensors = [t for t in model.graph.initializer if t.name in node.input]
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("h", onnx.TensorProto.DOUBLE, images.shape)],
        [onnx.ValueInfoProto(name="y")],
        tensors,
    )
    alone = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)])
    return ReferenceEvaluator(alone).run(None, {"h": images})[0]


FAST = [*CASES][::3]


@pytest.mark.parametrize("name", fast_if(FAST.__contains__, CASES))
def test_values_and_gradient(name: str, tmp_path: Path) -> None:
    model = resize(SHAPE, **CASES[name])
    onnx.save(model, tmp_path / "model.onnx")
    trainer = odtc.compile(tmp_path / "model.onnx").trainer()
    before = trainer.parameters()["p"]
    x = np.random.default_rng(5).standard_normal(SHAPE).astype(np.float32)
    logits = trainer.evaluate(x)
    expected = resized(model, (x + before).astype(np.float64)).reshape(len(x), -1)
    assert relative_error(logits, expected) < 1e-5

    y = np.array([1, 0])
    trainer.step(x, y, lr=1.0)
    share = np.exp(expected - expected.max(1, keepdims=True))
    share /= share.sum(1, keepdims=True)
    share[np.arange(len(x)), y] -= 1
    outgoing = (share / len(x)).sum(0).reshape(SHAPE[1], -1)
    # One image for each element that is one.
    units = np.eye(SHAPE[2] * SHAPE[3]).reshape(-1, 1, *SHAPE[2:])
    alone = resize((len(units), 1, *SHAPE[2:]), **CASES[name])
    rows = resized(alone, units).reshape(len(units), -1)
    gradient = (outgoing @ rows.T).reshape(before.shape)
    assert relative_error(before - trainer.parameters()["p"], gradient) < 1e-4


def test_what_is_not_supported_is_refused(tmp_path: Path) -> None:
    model = resize(
        SHAPE,
        sizes=[8, 8],
        mode="linear",
        coordinate_transformation_mode="tf_crop_and_resize",
    )
    model.graph.node[1].input[1] = "roi"
    corners = np.array([0, 0, 0, 0, 1, 1, 1, 1], np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(corners, "roi"))
    onnx.save(model, tmp_path / "model.onnx")
    with pytest.raises(odtc.OdtcError, match="=tf_crop_and_resize is not supported"):
        odtc.compile(tmp_path / "model.onnx")
