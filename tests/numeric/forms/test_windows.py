"""Convolution and pooling over drawn windows, and normalisations that ONNX's reference lacks.

Values are compared with ONNX Runtime: ONNX's own reference is wrong for some of these forms (means
with `ceil_mode`; transposed convolutions with groups, padding of the output, or a target size).
Gradients are compared with PyTorch in double precision, and with finite differences of its forward.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import odtc
from benchmarks.reference.pytorch import TorchTrainer
from tests.fast import examples
from tests.numeric.conftest import IMAGE, node_model, relative_error, weight

Evaluate = Callable[[onnx.ModelProto, np.ndarray], np.ndarray]

DRAWN = settings(
    max_examples=examples(6),
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


def by_runtime(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    """The logits by ONNX Runtime."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return np.asarray(session.run(None, {"x": x})[0])


def by_pytorch(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    """The logits by PyTorch, in double precision."""
    return TorchTrainer(model, lr=0.0, dtype=torch.float64).evaluate(x)


def check(model: onnx.ModelProto, folder: Path, evaluate: Evaluate = by_runtime) -> None:
    """Values by a runtime, gradients by PyTorch and by finite differences."""
    path = folder / "model.onnx"
    onnx.save(model, path)
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(5).standard_normal(shape).astype(np.float32)
    expected = evaluate(model, x)
    y = np.arange(len(x)) % expected.shape[1]
    trainer = odtc.compile(path).trainer()
    assert relative_error(trainer.evaluate(x), expected) < 1e-4
    before = trainer.parameters()
    loss = trainer.step(x, y, lr=1.0)
    after = trainer.parameters()
    reference = TorchTrainer(model, lr=1.0, dtype=torch.float64)
    assert loss == pytest.approx(reference.step(x, y), rel=1e-4)
    moved = reference.parameters()
    for name, value in before.items():
        gradient, wanted = value - after[name], value - moved[name]
        assert relative_error(gradient, wanted) < 1e-4, name
        direction = np.random.default_rng(6).standard_normal(value.shape)
        ends = [_loss(model, name, value + size * direction, x, y) for size in (1e-6, -1e-6)]
        slope = (ends[0] - ends[1]) / 2e-6
        size = float(np.abs(gradient).sum()) or 1.0
        assert float((gradient * direction).sum()) == pytest.approx(
            slope, rel=1e-3, abs=1e-4 * size
        )


def _loss(
    model: onnx.ModelProto, name: str, value: np.ndarray, x: np.ndarray, y: np.ndarray
) -> float:
    """The loss in double precision with another value of a parameter."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    for tensor in changed.graph.initializer:
        if tensor.name == name:
            tensor.CopyFrom(onnx.numpy_helper.from_array(value, name))
    logits = torch.tensor(by_pytorch(changed, x))
    return float(torch.nn.functional.cross_entropy(logits, torch.tensor(y)))


def sizes(axes: int, low: int, high: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(low, high), min_size=axes, max_size=axes)


@st.composite
def geometries(draw: st.DrawFn) -> tuple[list[int], dict[str, Any]]:
    """An image of one to three axes, and windows of it."""
    axes = draw(st.sampled_from([1, 2, 3]))
    image = draw(sizes(axes, 3, 8 if axes < 3 else 5))
    window: dict[str, Any] = {
        "kernel_shape": draw(sizes(axes, 1, 3)),
        "strides": draw(sizes(axes, 1, 3)),
        "dilations": draw(sizes(axes, 1, 3)),
    }
    # ONNX Runtime wants less padding than half a window where it pools.
    window["pads"] = [
        draw(st.integers(0, (size - 1) // 2)) for size in [*window["kernel_shape"]] * 2
    ]
    spans = [
        (size - 1) * gap + 1
        for size, gap in zip(window["kernel_shape"], window["dilations"], strict=True)
    ]
    for axis, (size, span) in enumerate(zip(image, spans, strict=True)):
        assume(size + window["pads"][axis] + window["pads"][axis + axes] >= span)
    return image, window


@DRAWN
@given(geometry=geometries(), group=st.sampled_from([1, 2, 4]))
def test_convolution(geometry, group: int, tmp_path_factory) -> None:
    image, window = geometry
    parameters = {"w": weight(4, 4 // group, *window["kernel_shape"]), "b": weight(4)}
    model = node_model("Conv", (2, 4, *image), parameters=parameters, group=group, **window)
    check(model, tmp_path_factory.mktemp("case"))


@DRAWN
@given(geometry=geometries(), group=st.sampled_from([1, 2, 4]), data=st.data())
def test_transposed_convolution(geometry, group: int, data, tmp_path_factory) -> None:
    image, window = geometry
    window["output_padding"] = [data.draw(st.integers(0, step - 1)) for step in window["strides"]]
    axes = len(image)
    lengths = [
        (image[i] - 1) * window["strides"][i]
        + (window["kernel_shape"][i] - 1) * window["dilations"][i]
        + 1
        + window["output_padding"][i]
        - window["pads"][i]
        - window["pads"][i + axes]
        for i in range(axes)
    ]
    assume(min(lengths) > 0)
    parameters = {
        "w": weight(4, 4 // group, *window["kernel_shape"]),
        "b": weight(4),
    }
    shape = (2, 4, *image)
    model = node_model("ConvTranspose", shape, parameters=parameters, group=group, **window)
    check(model, tmp_path_factory.mktemp("case"))


def test_transposed_convolution_with_an_output_padded_beyond_the_stride(tmp_path: Path) -> None:
    """Up to the dilation it may be; ONNX Runtime then lays the rows out wrongly."""
    parameters = {"w": weight(4, 2, 2, 3), "b": weight(4)}
    model = node_model(
        "ConvTranspose",
        IMAGE,
        parameters=parameters,
        group=2,
        strides=[1, 2],
        dilations=[2, 4],
        output_padding=[1, 3],
    )
    check(model, tmp_path, by_pytorch)


@pytest.mark.parametrize("auto_pad", ["NOTSET", "SAME_UPPER", "SAME_LOWER"])
def test_transposed_convolution_to_a_target_size(auto_pad: str, tmp_path: Path) -> None:
    parameters = {"w": weight(4, 5, 3, 2), "b": weight(5)}
    model = node_model(
        "ConvTranspose",
        IMAGE,
        parameters=parameters,
        strides=[2, 3],
        output_shape=[14, 19],
        auto_pad=auto_pad,
    )
    check(model, tmp_path)


@DRAWN
@given(
    geometry=geometries(),
    op_type=st.sampled_from(["MaxPool", "AveragePool"]),
    ceil_mode=st.integers(0, 1),
    counted=st.integers(0, 1),
)
def test_pooling(geometry, op_type: str, ceil_mode: int, counted: int, tmp_path_factory) -> None:
    image, window = geometry
    if op_type == "AveragePool":
        window["count_include_pad"] = counted
    if ceil_mode:
        # Where the last window starts in the padding, ONNX's text and its inference disagree.
        window["ceil_mode"] = 1
        assume(not _starts_outside(image, window))
    check(node_model(op_type, (2, 3, *image), opset=19, **window), tmp_path_factory.mktemp("case"))


def _starts_outside(image: list[int], window: dict[str, Any]) -> bool:
    axes = len(image)
    for i, size in enumerate(image):
        span = (window["kernel_shape"][i] - 1) * window["dilations"][i] + 1
        room = size + window["pads"][i] + window["pads"][i + axes] - span
        last = -(-room // window["strides"][i]) * window["strides"][i]
        if last >= size + window["pads"][i]:
            return True
    return False


NODES = {
    "GlobalLpPool": node_model("GlobalLpPool", IMAGE, p=3),
    "GlobalMaxPool": node_model("GlobalMaxPool", (2, 3, 5, 6, 4)),
    "LpNormalization": node_model("LpNormalization", IMAGE, p=1),
    "LpPool": node_model("LpPool", (2, 3, 5, 6, 4), kernel_shape=[2, 3, 2], p=3),
    "MeanVarianceNormalization": node_model("MeanVarianceNormalization", IMAGE),
}


@pytest.mark.parametrize("name", NODES)
def test_operators(name: str, tmp_path: Path) -> None:
    check(NODES[name], tmp_path)


def test_a_window_that_starts_in_the_padding_is_refused(tmp_path: Path) -> None:
    model = node_model(
        "MaxPool", IMAGE, kernel_shape=[3, 2], strides=[3, 4], pads=[1, 1, 1, 1], ceil_mode=1
    )
    onnx.save(model, tmp_path / "model.onnx")
    with pytest.raises(odtc.OdtcError, match="ceil_mode leaves"):
        odtc.compile(tmp_path / "model.onnx")
