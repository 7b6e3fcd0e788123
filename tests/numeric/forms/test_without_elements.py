"""Tensors without elements: what is made of them is known when the model is compiled."""

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import odtc
from odtc import onnx_backend
from odtc.core.errors import UnsupportedError

CONSTANTS = {
    "zero": np.array([0]),
    "one": np.array([1]),
    "rows": np.zeros((0, 1), np.int64),
    "none": np.zeros((0, 4), np.float32),
    "sizes": np.array([3, 0]),
    "p": np.ones((3, 1), np.float32),
    "boxes": np.array([[[0, 0, 1, 1], [0, 0, 1, 0.9], [2, 2, 3, 3]]], np.float32),
    "scores": np.array([[[0.5, 0.9, 0.1]]], np.float32),
    "most": np.array([2]),
    "overlap": np.array([0.5], np.float32),
    "mask": np.array([[1, 0], [0, 1]]),
    "many": np.array([3, 1, 3, 2]),
}
# Each is an output.
NODES = {
    "empty": "empty = Slice (h, zero, zero, zero)",
    "joined": "joined = Concat <axis = 0> (empty, h, empty)",
    "total": "total = ReduceSum <keepdims = 0> (empty, zero)",
    "least": "least = ReduceMin <keepdims = 1> (empty, zero)",
    "mixed": "turned = Transpose (empty) mixed = MatMul (turned, empty)",
    "same": "same = ScatterND (h, rows, none)",
    "whole": "whole, rest = Split <axis = 0> (h, sizes)",
    "rest": "",
    "curve": "curve = Tanh (empty)",
    "found": "found = NonMaxSuppression (boxes, scores, most, overlap)",
    "places": "places = NonZero (mask)",
    "values": "values, first, inverse, counts = Unique (many)",
    "inverse": "",
}


def model_of(outputs: list[str]) -> onnx.ModelProto:
    """`x [3, 4] -> h -> NODES`."""
    nodes = " ".join(["h = Mul (x, p)", *NODES.values()])
    integers = {"found", "places", "values", "inverse"}
    graph = helper.make_graph(
        onnx.parser.parse_graph(f"g () => () {{ {nodes} }}").node,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 4])],
        [
            helper.make_tensor_value_info(
                name, TensorProto.INT64 if name in integers else TensorProto.FLOAT, None
            )
            for name in outputs
        ],
        [numpy_helper.from_array(value, name) for name, value in CONSTANTS.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def test_values_are_those_of_the_reference() -> None:
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    model = model_of(list(NODES))
    expected = ReferenceEvaluator(model).run(None, {"x": x})
    model = onnx.shape_inference.infer_shapes(model)
    found = onnx_backend.run_model(model, [x])
    for name, value, wanted in zip(NODES, found, expected, strict=True):
        assert value.shape == np.shape(wanted), name
        np.testing.assert_allclose(value, wanted, rtol=1e-6, err_msg=name)


def test_a_step_trains_what_is_joined_with_nothing(tmp_path) -> None:
    model = onnx.shape_inference.infer_shapes(model_of(["joined"]))
    onnx.save(model, tmp_path / "m.onnx")
    trainer = odtc.compile(tmp_path / "m.onnx", loss="mse", train=["p"]).trainer()
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    trainer.step(x, np.zeros((3, 4), np.float32), lr=0.01)
    gradient = (CONSTANTS["p"] - trainer.parameters()["p"]) / 0.01
    np.testing.assert_allclose(gradient, 2 * (x * x).sum(1, keepdims=True) / 12, rtol=1e-4)


def test_an_output_without_elements_has_no_loss(tmp_path) -> None:
    model = onnx.shape_inference.infer_shapes(model_of(["curve", "joined"]))
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(
        UnsupportedError, match=r"the output has no elements: its shape is \[0, 4\]"
    ):
        odtc.compile(tmp_path / "m.onnx", loss={"curve": "mse", "joined": "mse"}, train=["p"])


OPTIONALS = """<ir_version: 9, opset_import: ["" : 18]>
net (float[3, 4] x) => (float[3, 4] y) {
    o = Optional (x) has = OptionalHasElement (o) got = OptionalGetElement (o)
    none = OptionalHasElement () both = And (has, none) only = Xor (both, has)
    y = If (only) <then_branch = yes () => (float[3, 4] t) { t = Neg (got) },
        else_branch = no () => (float[3, 4] e) { e = Exp (got) }>
}"""


def test_an_optional_is_what_it_holds() -> None:
    """ONNX's reference implementation has a list for the answer whether it holds any."""
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    (found,) = onnx_backend.run_model(onnx.parser.parse_model(OPTIONALS), [x])
    np.testing.assert_array_equal(found, -x)


def test_an_empty_optional_is_refused() -> None:
    text = OPTIONALS.replace("Optional (x)", "Optional <type = float[3, 4]> ()")
    with pytest.raises(UnsupportedError, match="only optionals that surely hold"):
        onnx_backend.run_model(onnx.parser.parse_model(text), [np.ones((3, 4), np.float32)])
