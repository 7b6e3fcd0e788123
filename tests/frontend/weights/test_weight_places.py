"""Weights wherever a file has them: they get a name each, and are written back where they were."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, inliner, numpy_helper

from odtc.core.errors import ModelError, NumericError, UnsupportedError
from odtc.core.onnx_model.weight_places import float_tensors
from odtc.core.onnx_model.weights import fill_weights, strip_weights
from odtc.frontend.file.onnx_file import load_model
from odtc.frontend.file.specialize import require_places, specialize

HEAD = (
    '<ir_version: 8, opset_import: ["" : 17, "mine" : 1]>\nnet (float[2, 2] x) => (float[2, 2] y)\n'
)
# Each with the values that its weights have, by name.
FILES = {
    "constant": (
        "{ c = Constant <value = float[2, 2] {1, 2, 3, 4}> () y = MatMul (x, c) }",
        {"c": 1},
    ),
    "constant of plain floats": (
        "{ c = Constant <value_floats = [1.0, 2.5]> () y = Mul (x, c) }",
        {"c": 1},
    ),
    "branches with a name in common": (
        """{
            go = Constant <value = bool {1}> ()
            y = If (go) <
                then_branch = yes () => (float[2, 2] a)
                    <float[2, 2] w = {1, 2, 3, 4}> { a = MatMul (x, w) },
                else_branch = no () => (float[2, 2] b)
                    <float[2, 2] w = {5, 6, 7, 8}> { b = MatMul (x, w) }>
        }""",
        {"w": 1},
    ),
    "two loops, with a loop in the second": (
        """{
            n = Constant <value = int64 {2}> () go = Constant <value = bool {1}> ()
            h = Loop (n, go, x) <body = one (int64 i, bool c, float[2, 2] s) =>
                (bool d, float[2, 2] t) <float[2, 2] w = {1, 2, 3, 4}> {
                    d = Identity (c) t = MatMul (s, w) }>
            y = Loop (n, go, h) <body = two (int64 i, bool c, float[2, 2] s) =>
                (bool d, float[2, 2] t) <float[2, 2] w = {5, 6, 7, 8}> {
                    d = Identity (c) u = MatMul (s, w)
                    t = Loop (n, c, u) <body = three
                        (int64 j, bool e, float[2, 2] p) => (bool f, float[2, 2] q) {
                            f = Identity (e) v = Constant <value = float[2, 2] {9, 8, 7, 6}> ()
                            r = MatMul (p, v) q = Add (r, w) }> }>
        }""",
        {"w": 1, "y::w": 5, "v": 9},
    ),
    "a branch that is a weight": (
        """{
            go = Constant <value = bool {1}> ()
            a = If (go) <
                then_branch = yes () => (float[2, 2] w) <float[2, 2] w = {1, 2, 3, 4}> { },
                else_branch = no () => (float[2, 2] c)
                    { c = Constant <value = float[2, 2] {5, 6, 7, 8}> () }>
            y = MatMul (x, a)
        }""",
        {"w": 1},
    ),
    "function that is called twice": (
        """{ h = mine.f (x) y = mine.f (h) }
        <domain: "mine", opset_import: ["" : 17]>
        f (a) => (b) { c = Constant <value = float[2, 2] {1, 2, 3, 4}> () b = MatMul (a, c) }""",
        {"f::c": 1},
    ),
}


def read(text, folder) -> onnx.ModelProto:
    onnx.save(onnx.parser.parse_model(HEAD + text), folder / "m.onnx")
    return load_model(folder / "m.onnx")


@pytest.mark.parametrize(("text", "firsts"), FILES.values(), ids=FILES)
def test_each_place_is_a_parameter_and_filled_again(tmp_path, text, firsts) -> None:
    model = read(text, tmp_path)
    graph = specialize(model, promoted=firsts)
    require_places(graph, model)
    graph.drop_unused()
    assert {name: value.flat[0] for name, value in graph.parameters.items()} == firsts

    places = dict(float_tensors(model.graph))
    strip_weights(model, graph.parameters)
    assert not any(places[name].raw_data or places[name].float_data for name in firsts)
    new = {name: value + 100 for name, value in graph.parameters.items()}
    fill_weights(model, new)
    onnx.save(model, tmp_path / "new.onnx")
    again = specialize(load_model(tmp_path / "new.onnx"), promoted=firsts)
    again.drop_unused()
    for name, value in again.parameters.items():
        np.testing.assert_array_equal(value, new[name])
    assert again.parameters.keys() == new.keys()


def test_one_number_of_a_constant_node_is_no_weight_unless_it_is_named(tmp_path) -> None:
    text = "{ two = Constant <value = float {2}> () t = Mul (x, two) y = Mul (t, w) }"
    model = read(f"<float w = {{3}}> {text}", tmp_path)
    assert "two" not in specialize(model).parameters
    assert specialize(model, promoted=["two", "w", "*"]).parameters == {"two": 2, "w": 3}


def test_a_weight_without_a_place_is_refused(tmp_path) -> None:
    scaled = """{ y = mine.f (x) } <domain: "mine", opset_import: ["" : 17]>
        f (a) => (b) { c = Constant <value = float {2}> () b = Mul (a, c) }"""
    model = read(scaled, tmp_path)
    require_places(specialize(model), model)
    (name,) = [n.output[0] for n in inliner.inline_local_functions(model).graph.node][:1]
    with pytest.raises(UnsupportedError, match="no place in the file"):
        require_places(specialize(model, promoted=[name]), model)


TYPES = ("float32", "float16", "bfloat16", "float64")


def holding(value: np.ndarray, dtype: str) -> onnx.ModelProto:
    stored = value.astype(
        helper.tensor_dtype_to_np_dtype(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
    )
    node = helper.make_node("Identity", ["w"], ["y"])
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "g", [], [out], [numpy_helper.from_array(stored, "w")])
    return helper.make_model(graph)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(), (3,)])
def test_weights_are_written_in_the_type_of_the_file(dtype, shape) -> None:
    model = holding(np.full(shape, 1.25), dtype)
    strip_weights(model, ["w"])
    fill_weights(model, {"w": np.full(shape, 0.1, np.float32)})
    result = numpy_helper.to_array(model.graph.initializer[0])
    assert result.dtype.name == dtype
    assert result.shape == shape
    np.testing.assert_array_equal(result, np.full(shape, np.float32(0.1)).astype(result.dtype))


def test_what_training_leaves_alone_keeps_the_digits_of_float64() -> None:
    value = np.array([1 / 3, 2 / 3])
    model = holding(value, "float64")
    strip_weights(model, ["w"])
    fill_weights(model, {"w": np.array([1 / 3, 0.5], np.float32)})
    np.testing.assert_array_equal(
        numpy_helper.to_array(model.graph.initializer[0]), np.array([1 / 3, 0.5])
    )


def test_what_the_type_of_the_file_cannot_hold_is_refused() -> None:
    model = holding(np.ones(2), "float16")
    with pytest.raises(NumericError, match=r"the largest element is 70000, which float16"):
        fill_weights(model, {"w": np.array([1, -7e4], np.float32)})


def test_nodes_out_of_order_are_sorted_and_cycles_are_refused(tmp_path) -> None:
    """Converters to float16 put their casts last."""
    text = "{ b = Neg (a) y = If (go) <then_branch = t () => (float[2, 2] c) { c = Abs (b) },"
    text += "else_branch = e () => (float[2, 2] d) { d = Neg (b) }> "
    text += "go = Constant <value = bool {1}> () a = Sin (x) }"
    types = [node.op_type for node in read(text, tmp_path).graph.node]
    assert types == ["Constant", "Sin", "Neg", "If"]
    with pytest.raises(ModelError, match="topologically sorted"):
        read("{ a = Add (x, y) y = Neg (a) }", tmp_path)


def test_a_sparse_initializer_is_refused_and_a_sparse_constant_noted(tmp_path) -> None:
    model = onnx.parser.parse_model(HEAD + "{ y = MatMul (x, w) }")
    values = numpy_helper.from_array(np.ones(1, np.float32), "w")
    places = numpy_helper.from_array(np.zeros(1, np.int64))
    sparse = helper.make_sparse_tensor(values, places, [2, 2])
    model.graph.node.insert(0, helper.make_node("Constant", [], ["w"], sparse_value=sparse))
    assert any(note.startswith("w: not trained: Constant") for note in specialize(model).notes)
    del model.graph.node[0]
    model.graph.sparse_initializer.append(sparse)
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(UnsupportedError, match="the initializer is sparse"):
        load_model(tmp_path / "m.onnx")
