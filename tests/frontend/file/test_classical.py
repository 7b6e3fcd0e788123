"""Operators of scikit-learn's exporters, against ONNX's reference implementation."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import odtc
from odtc.core.errors import UnsupportedError, UsageError
from odtc.frontend.coverage import check_graph, require_trainable
from odtc.frontend.file.specialize import specialize
from odtc.frontend.graph import Graph

RNG = np.random.default_rng(0)
X = np.array([[1, -2, 0.5], [np.nan, 3, -1], [0, 0, 0], [2, 2, -4]], np.float32)
PLAIN = np.nan_to_num(X, nan=0.25)
COEFFICIENTS = f"coefficients = {[0.5, -1.0, 2.0, 1.0, 0.0, -0.5]}, intercepts = [0.1, -0.2]"
ONE_ROW = "coefficients = [0.5, -1.0, 2.0], intercepts = [0.1]"
LABELS = "classlabels_ints = [3, 7]"
SINGLE = {
    "ArrayFeatureExtractor": "y = ml.ArrayFeatureExtractor (x, places)",
    "Binarizer": "y = ml.Binarizer <threshold = 0.5> (x)",
    "FeatureVectorizer": "y = ml.FeatureVectorizer <inputdimensions = [3, 3]> (x, x)",
    "Imputer-value": "y = ml.Imputer <imputed_value_floats = [9.0], "
    "replaced_value_float = 2.0> (x)",
    "LinearRegressor": f"y = ml.LinearRegressor <targets = 2, {COEFFICIENTS}> (x)",
    "LinearRegressor-one": f"y = ml.LinearRegressor <{ONE_ROW}> (x)",
    **{
        f"LinearClassifier-{after}": f"l, y = ml.LinearClassifier <{LABELS}, {COEFFICIENTS}, "
        f'post_transform = "{after}"> (x)'
        for after in ("NONE", "LOGISTIC", "SOFTMAX")
    },
    "LinearClassifier-one": f"l, y = ml.LinearClassifier <{LABELS}, {ONE_ROW}, "
    'post_transform = "LOGISTIC"> (x)',
    **{
        f"Normalizer-{norm}": f'y = ml.Normalizer <norm = "{norm}"> (x)'
        for norm in ("MAX", "L1", "L2")
    },
    "Scaler": "y = ml.Scaler <offset = [1.0, 2.0, 3.0], scale = [0.5, 2.0, 1.0]> (x)",
    "Scaler-one": "y = ml.Scaler <offset = [1.0], scale = [0.5]> (x)",
}
IMPUTER = "y = ml.Imputer <imputed_value_floats = [5.0, 6.0, 7.0], replaced_value_float = {}> (x)"
WEIGHTS = {
    "w1": RNG.standard_normal((3, 5)).astype(np.float32),
    "b1": RNG.standard_normal((1, 5)).astype(np.float32),
    "w2": RNG.standard_normal((5, 1)).astype(np.float32),
    "w3": RNG.standard_normal((5, 3)).astype(np.float32),
}
# As the exporter writes a network of two classes, and one of three with names.
HIDDEN = (
    "s = ml.Scaler <offset = [0.0, 1.0, 0.0], scale = [1.0, 1.0, 0.5]> (x) "
    "a = MatMul (s, w1) b = Add (a, b1) c = Relu (b) "
)
LABEL = "g = ArgMax <axis = 1> (o) e = ml.ArrayFeatureExtractor (classes, g) r = Reshape (e, flat) "
BINARY = (
    f"{HIDDEN} z = MatMul (c, w2) p = Sigmoid (z) n = Sub (unity, p) o = Concat <axis = 1> (n, p) "
    f"y = ml.ZipMap <classlabels_int64s = [0, 1]> (o) {LABEL} label = Cast <to = 7> (r)"
)
NAMED = (
    f"{HIDDEN} z = MatMul (c, w3) o = Softmax (z) "
    f'y = ml.ZipMap <classlabels_strings = ["a", "b", "c"]> (o) {LABEL} label = Identity (r)'
)


def result(nodes: str, kind: int) -> onnx.ValueInfoProto:
    """The declaration of `y`: a tensor, or a sequence of maps from labels to scores."""
    if "ml.ZipMap" not in nodes:
        return helper.make_tensor_value_info("y", kind, [None] * (1 if kind > 1 else 2))
    key = TensorProto.STRING if "strings" in nodes else TensorProto.INT64
    score = helper.make_tensor_type_proto(TensorProto.FLOAT, [])
    maps = helper.make_sequence_type_proto(helper.make_map_type_proto(key, score))
    return helper.make_value_info("y", maps)


def model_of(
    nodes: str, *, label: int = 0, kind: int = 1, **constants: np.ndarray
) -> onnx.ModelProto:
    """The nodes on `x`, with a label as the first output and `y`."""
    fixed = {
        "places": np.array([2, 0]),
        "flat": np.array([-1]),
        "unity": np.array(1, np.float32),
        "classes": np.array([0, 1], np.int32),
        **WEIGHTS,
        **constants,
    }
    parsed = onnx.parser.parse_graph(f"g () => () {{ {nodes.replace('ml.', 'ai.onnx.ml.')} }}")
    read = {name for node in parsed.node for name in node.input}
    outputs = [helper.make_tensor_value_info("label", label, ["N"])] if label else []
    graph = helper.make_graph(
        parsed.node,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3])],
        [*outputs, result(nodes, kind)],
        [numpy_helper.from_array(v, k) for k, v in fixed.items() if k in read],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def reference(model: onnx.ModelProto, names: list[str] | None, **feeds: np.ndarray) -> np.ndarray:
    results: Any = ReferenceEvaluator(model).run(names, feeds)
    return results[0]


def run(graph: Graph, x: np.ndarray) -> np.ndarray:
    require_trainable(graph, check_graph(graph, ()))
    return reference(graph.to_model(), None, x=x, **graph.parameters)


@pytest.mark.parametrize("name", SINGLE)
def test_single_operators(name: str) -> None:
    model = model_of(SINGLE[name])
    expected = reference(model, ["y"], x=PLAIN)
    np.testing.assert_allclose(run(specialize(model, 4), PLAIN), expected, rtol=1e-6, atol=1e-7)


def test_missing_numbers_are_put_in() -> None:
    model = model_of(IMPUTER.format(0.5))
    (missing,) = [a for a in model.graph.node[0].attribute if a.name == "replaced_value_float"]
    missing.f = np.nan
    expected = np.where(np.isnan(X), np.float32(5), X)
    np.testing.assert_array_equal(run(specialize(model, 4), X), expected)


def test_labels_of_a_linear_classifier() -> None:
    model = model_of(
        SINGLE["LinearClassifier-SOFTMAX"].replace("l, y", "y, q"), kind=TensorProto.INT64
    )
    expected = reference(model, ["y"], x=PLAIN)
    np.testing.assert_array_equal(run(specialize(model, 4), PLAIN), expected)


@pytest.mark.parametrize(
    ("nodes", "kind", "classes"),
    [
        (BINARY, TensorProto.INT64, np.array([0, 1], np.int32)),
        (NAMED, TensorProto.STRING, np.array(["a", "b", "c"], object)),
    ],
)
def test_labels_and_maps_are_left_out(nodes: str, kind: int, classes: np.ndarray) -> None:
    graph = specialize(model_of(nodes, label=kind, classes=classes), 4)
    assert graph.outputs == ["y"]
    assert graph.notes[-2:] == [
        "-> y (ZipMap): left out; 'y' is the tensor of scores",
        "labels are left out: label",
    ]
    plain = nodes.partition("y = ml.ZipMap")[0].replace("o =", "y =")
    expected = reference(model_of(plain), ["y"], x=PLAIN)
    np.testing.assert_allclose(run(graph, PLAIN), expected, rtol=1e-5, atol=1e-7)


def test_a_binary_network_learns_by_its_logits_and_is_written_back(tmp_path: Path) -> None:
    path = tmp_path / "binary.onnx"
    onnx.save(model_of(BINARY, label=TensorProto.INT64), path)
    trainer = odtc.compile(path, batch=4).trainer()
    hidden = np.maximum((PLAIN - [0, 1, 0]) * [1, 1, 0.5] @ WEIGHTS["w1"] + WEIGHTS["b1"], 0)
    logit = (hidden @ WEIGHTS["w2"])[:, 0]
    y = np.array([0, 1, 1, 0])
    expected = np.log1p(np.exp(np.where(y == 1, -logit, logit))).mean()
    assert trainer.step(PLAIN, y, lr=0.1) == pytest.approx(expected, rel=1e-5)
    # Onnxruntime runs the file as it is written, and compares its maps.
    with pytest.warns(UserWarning, match="does not give label"):
        trainer.export_onnx(tmp_path / "out.onnx")
    written = onnx.load(tmp_path / "out.onnx")
    assert [value.name for value in written.graph.output] == ["label", "y"]


def test_a_label_of_its_own_is_left_out() -> None:
    nodes = SINGLE["LinearClassifier-SOFTMAX"].replace("l, y", "label, y")
    graph = specialize(model_of(nodes, label=TensorProto.INT64), 4)
    assert graph.outputs == ["y"]
    assert run(graph, PLAIN).shape == (4, 2)


def test_coefficients_in_attributes_are_not_trained(tmp_path: Path) -> None:
    model = model_of(SINGLE["LinearRegressor"])
    (note,) = specialize(model, 4).notes
    assert note.startswith("-> y (LinearRegressor): its coefficients are not trained: they are att")
    onnx.save(model, tmp_path / "linear.onnx")
    with pytest.raises(UsageError, match="holds no weights that can be trained") as said:
        odtc.compile(tmp_path / "linear.onnx", batch=4, loss="mse")
    assert f"hint: {note}" in str(said.value)


def test_other_operators_are_refused() -> None:
    model = model_of("y = ml.OneHotEncoder <cats_int64s = [0, 1]> (x)")
    with pytest.raises(UnsupportedError, match="OneHotEncoder is of the domain"):
        specialize(model, 4)
