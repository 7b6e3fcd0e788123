"""Normalisations as text, and as nodes in front of a model."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import odtc
from odtc.core.errors import OdtcError, UnsupportedError, UsageError
from odtc.frontend.file.specialize import read_graph
from odtc.frontend.inputs.normalization import NAMED, parse_normalization
from odtc.frontend.inputs.normalize_input import normalize_input
from odtc.frontend.weights.finding import Kind

MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.3, 0.25)
RGB = odtc.Normalize(MEAN, STD)


def model_of(
    *shapes: tuple[Any, ...], dtype: int = TensorProto.FLOAT, opset: int = 17, nodes: Any = None
) -> onnx.ModelProto:
    """A model whose output is its first input, a hundred times larger."""
    inputs = [helper.make_tensor_value_info(f"x{n}", dtype, each) for n, each in enumerate(shapes)]
    output = helper.make_tensor_value_info("out", dtype, shapes[0])
    hundred = helper.make_tensor("hundred", dtype, [1], [100.0])
    nodes = nodes or [helper.make_node("Mul", ["x0", "hundred"], ["out"])]
    graph = helper.make_graph(nodes, "g", inputs, [output], [hundred])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def computed(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    onnx.checker.check_model(model)
    (found,) = ReferenceEvaluator(model).run(None, {"x0": x})
    return np.asarray(found)


def test_texts_are_read():
    assert parse_normalization("imagenet") is NAMED["imagenet"]
    one = parse_normalization("mean=0.5, std=0.25")
    assert (one.means, one.deviations, one.input) == ((0.5,), (0.25,), None)
    three = parse_normalization("mean=0.4:0.5:0.6,std=0.2:0.3:0.25,input=x")
    assert three == odtc.Normalize(MEAN, list(STD), "x")
    assert parse_normalization(str(RGB)) == RGB


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("imagenett", "did you mean imagenet"),
        ("mean=0.5", "has no 'std'"),
        ("mean=0.5,std=x", "could not convert"),
        ("mean=0.5,std=0.5,scale=2", "there is no 'scale'"),
        ("mean=0.5:0.5,std=0.5", "mean has 2 numbers, and std 1"),
        ("mean=0.5,std=0", "std 0 is not a number above 0"),
        ("mean=0.5,std=-1", "std -1 is not a number above 0"),
        ("mean=nan,std=1", "finite"),
        ("train/x.npz", "or the path of data"),
    ],
)
def test_wrong_texts_are_told(text: str, said: str):
    with pytest.raises(UsageError, match=said):
        parse_normalization(text)


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize(("shape", "axis"), [((2, 3, 4, 5), 1), ((2, 4, 5, 3), 3)])
def test_an_image_is_fed_as_pixels(shape: tuple[int, ...], axis: int, dtype: str):
    model = model_of(shape, dtype=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
    said = normalize_input(model, RGB)
    assert said == {"x0": f"takes pixels from 0 to 255 (uint8), normalised in the model by {RGB}"}
    x = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    wide = [-1 if at == axis else 1 for at in range(4)]
    mean, std = (np.reshape(each, wide) for each in (MEAN, STD))
    found = computed(model, x)
    assert found.dtype == dtype
    wanted = 100 * (x / 255.0 - mean) / std
    digits = {"float16": 5e-3, "float32": 1e-6, "float64": 1e-14}[dtype]
    np.testing.assert_allclose(found, wanted, atol=digits * 300)


def test_rows_stay_floats():
    model = model_of(("n", 3))
    normalize_input(model, RGB)
    x = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
    np.testing.assert_allclose(computed(model, x), 100 * (x - MEAN) / STD, rtol=1e-5, atol=1e-4)


def test_one_number_is_for_all_channels():
    model = model_of((1, 4, 2, 2))
    normalize_input(model, odtc.Normalize(0.5, 0.25))
    x = np.full((1, 4, 2, 2), 255, np.uint8)
    np.testing.assert_allclose(computed(model, x), 200.0)


def test_bodies_of_nodes_read_what_is_normalised():
    body = helper.make_graph(
        [helper.make_node("Mul", ["x0", "hundred"], ["inner"])],
        "body",
        [],
        [helper.make_tensor_value_info("inner", TensorProto.FLOAT, [1, 3, 2, 2])],
    )
    true = helper.make_tensor("yes", TensorProto.BOOL, [], [True])
    nodes = [
        helper.make_node("Constant", [], ["always"], value=true),
        helper.make_node("If", ["always"], ["out"], then_branch=body, else_branch=body),
    ]
    model = model_of((1, 3, 2, 2), nodes=nodes)
    normalize_input(model, RGB)
    x = np.full((1, 3, 2, 2), 51, np.uint8)
    wanted = 100 * (0.2 - np.array(MEAN)) / np.array(STD)
    np.testing.assert_allclose(computed(model, x)[0, :, 0, 0], wanted, rtol=1e-5)


def test_means_are_no_parameters():
    """Without metadata, as other exporters write files: a layer's bias and scale look alike."""
    weight = helper.make_tensor("w", TensorProto.FLOAT, [4, 3, 1, 1], np.arange(12.0) ** 0.5)
    model = model_of((2, 3, 4, 4), nodes=[helper.make_node("Conv", ["x0", "w"], ["out"])])
    model.graph.initializer.append(weight)
    normalize_input(model, RGB)
    kinds = {name: found.kind for name, found in read_graph(model).findings.items()}
    assert kinds.pop("w") is Kind.PARAMETER
    assert {*kinds.values()} == {Kind.CONSTANT}


def same(shape: tuple[Any, ...]) -> onnx.ModelProto:
    """A model that gives its input back."""
    model = model_of(shape)
    model.graph.output.append(model.graph.input[0])
    return model


@pytest.mark.parametrize(
    ("model", "asked", "said"),
    [
        (model_of((2, 5, 4, 4)), RGB, r"no input of floats is an image of 3 channels.*x0 float32"),
        (model_of((2, 3, 4)), RGB, r"no input of floats"),
        (model_of((2, 3, 4, 4), dtype=TensorProto.UINT8), RGB, "no input of floats"),
        (model_of((2, 3, 4, 4), (2, 3, 4, 4)), RGB, "several inputs may be normalised"),
        (model_of((2, 3, 4, 4)), odtc.Normalize(MEAN, STD, "y"), "no input of floats"),
        (model_of((2, 3, 4, 4), opset=6), RGB, "opset 6"),
        (same((2, 3, 4, 4)), RGB, "gives its input 'x0' back"),
    ],
)
def test_what_cannot_be_normalised_is_told(
    model: onnx.ModelProto, asked: odtc.Normalize, said: str
):
    before = model.SerializeToString()
    with pytest.raises((UsageError, UnsupportedError), match=said):
        normalize_input(model, asked)
    assert model.SerializeToString() == before


def test_an_image_goes_before_rows_and_a_name_before_both(tmp_path: Path):
    model = model_of((2, 3, 4, 4), (2, 3))
    assert [*normalize_input(model, RGB)] == ["x0"]
    model = model_of((2, 3, 4, 4), (2, 3))
    assert [*normalize_input(model, odtc.Normalize(MEAN, STD, "x1"))] == ["x1"]
    onnx.save(model_of((2, 5)), tmp_path / "m.onnx")
    with pytest.raises(OdtcError, match="row of 3 features"):
        odtc.compile(tmp_path / "m.onnx", normalize=RGB)
