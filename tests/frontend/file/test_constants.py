"""Values that an exporter derives from shapes and constants are folded before compilation."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from odtc.core.errors import ModelError
from odtc.frontend.file.specialize import specialize
from odtc.frontend.graph import Graph
from odtc.frontend.normalize import constants as folding
from odtc.frontend.normalize.pipeline import normalize

W = np.arange(12, dtype=np.float32).reshape(4, 3)


def const(name: str, value) -> onnx.NodeProto:
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value))


def model_of(nodes, initializers=None, functions=(), opset=17) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(v, k) for k, v in {"w": W, **(initializers or {})}.items()],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("mine", 1)]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=8)


def test_a_bias_of_zeros_made_from_the_weights_shape() -> None:
    """As PyTorch's exporter writes a convolution without bias."""
    nodes = [
        const("zero", np.float32(0)),
        helper.make_node("CastLike", ["zero", "x"], ["like"]),
        helper.make_node("Shape", ["w"], ["classes"], start=1),
        helper.make_node("Expand", ["like", "classes"], ["bias"]),
        helper.make_node("Gemm", ["x", "w", "bias"], ["y"]),
    ]
    graph = specialize(model_of(nodes), batch=2)
    assert [node.op_type for node in graph.nodes] == ["Gemm"]
    assert graph.constants["bias"].shape == (3,)
    assert set(graph.parameters) == {"w"}


def test_cast_like_waits_until_the_type_is_known() -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["whole"], to=TensorProto.INT64),
        const("number", np.float32(2.7)),
        helper.make_node("CastLike", ["number", "whole"], ["like"]),
        helper.make_node("Add", ["whole", "like"], ["sum"]),
        helper.make_node("Cast", ["sum"], ["y"], to=TensorProto.FLOAT),
    ]
    graph = specialize(model_of(nodes), batch=2)
    assert graph.constants["like"].dtype == np.int64


def test_folding_and_inference_go_on_in_turn() -> None:
    """The second reshape's target is known only when the first one's shape is."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("ReduceProd", ["s"], ["n"], keepdims=1),
        helper.make_node("Reshape", ["x", "n"], ["flat"]),
        helper.make_node("Shape", ["flat"], ["t"]),
        const("four", np.array([4], np.int64)),
        helper.make_node("Div", ["t", "four"], ["rows"]),
        helper.make_node("Concat", ["rows", "four"], ["u"], axis=0),
        helper.make_node("Reshape", ["flat", "u"], ["back"]),
        helper.make_node("MatMul", ["back", "w"], ["y"]),
    ]
    graph = specialize(model_of(nodes), batch=6)
    assert [node.op_type for node in graph.nodes] == ["Reshape", "Reshape", "MatMul"]
    assert graph.shapes["y"] == (6, 3)


def test_a_mask_becomes_one_constant() -> None:
    nodes = [
        *(const(n, np.int64(v)) for n, v in (("start", 0), ("limit", 4), ("delta", 1))),
        helper.make_node("Range", ["start", "limit", "delta"], ["positions"]),
        const("one", np.array([1], np.int64)),
        helper.make_node("Unsqueeze", ["positions", "one"], ["column"]),
        helper.make_node("LessOrEqual", ["positions", "column"], ["causal"]),
        const("zero", np.float32(0)),
        const("low", np.float32(-np.inf)),
        helper.make_node("Where", ["causal", "zero", "low"], ["mask"]),
        helper.make_node("Add", ["x", "mask"], ["m"]),
        helper.make_node("MatMul", ["m", "w"], ["y"]),
    ]
    graph = specialize(model_of(nodes), batch=4)
    assert [node.op_type for node in graph.nodes] == ["Add", "MatMul"]
    expected = np.where(np.tri(4, dtype=bool), 0, -np.inf)
    np.testing.assert_array_equal(graph.constants["mask"], expected)


def test_a_float_initializer_that_holds_infinities_is_a_mask() -> None:
    mask = np.where(np.tri(4, dtype=bool), 0, -np.inf).astype(np.float32)
    nodes = [
        helper.make_node("Add", ["x", "mask"], ["m"]),
        helper.make_node("MatMul", ["m", "w"], ["y"]),
    ]
    graph = specialize(model_of(nodes, {"mask": mask}), batch=4)
    assert set(graph.parameters) == {"w"}
    assert any("mask: not trained: holds infinities" in note for note in graph.notes)


def test_settings_are_no_weights() -> None:
    nodes = [
        helper.make_node("Pad", ["x", "pads", "value"], ["p"]),
        helper.make_node("MatMul", ["p", "w"], ["y"]),
    ]
    constants = {"pads": np.zeros(4, np.int64), "value": np.zeros(1, np.float32)}
    assert set(specialize(model_of(nodes, constants), batch=2).parameters) == {"w"}


def test_functions_of_the_model_are_inlined() -> None:
    function = helper.make_function(
        "mine",
        "Scaled",
        ["a", "b"],
        ["c"],
        [
            helper.make_node("MatMul", ["a", "b"], ["t"]),
            helper.make_node("Mul", ["t", "t"], ["c"]),
        ],
        [helper.make_opsetid("", 17)],
    )
    model = model_of(
        [helper.make_node("Scaled", ["x", "w"], ["y"], domain="mine")], None, [function]
    )
    graph = normalize(specialize(model, batch=2))
    assert [node.op_type for node in graph.nodes] == ["MatMul", "Mul"]


@pytest.mark.parametrize("op_type", ["ConstantOfShape", "Tile", "Range"])
def test_nothing_huge_is_made(op_type: str) -> None:
    """A few bytes in the file must not become gigabytes in memory."""
    many = np.array([1 << 40], np.int64)
    inputs = {
        "ConstantOfShape": ["many"],
        "Tile": ["one", "many"],
        "Range": ["zero", "count", "step"],
    }
    nodes = [
        const("many", many),
        const("one", np.array([1.0], np.float32)),
        *(const(n, np.int64(v)) for n, v in (("zero", 0), ("count", 1 << 40), ("step", 1))),
        helper.make_node(op_type, inputs[op_type], ["huge"]),
        helper.make_node("ReduceMax", ["huge"], ["top"], keepdims=1),
        helper.make_node("Cast", ["top"], ["number"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Add", ["m", "number"], ["y"]),
    ]
    with pytest.raises(ModelError, match=r"1099511627776.* at most 2147483647 elements"):
        specialize(model_of(nodes), batch=2)


def test_folded_values_are_those_of_the_reference() -> None:
    nodes = [
        const("a", np.array([[3, -4], [5, 6]], np.int64)),
        const("axes", np.array([0], np.int64)),
        helper.make_node("Split", ["a"], ["top", "low"], axis=0),
        helper.make_node("Abs", ["top"], ["abs"]),
        helper.make_node("ReduceSum", ["abs", "axes"], ["sum"], keepdims=0),
        helper.make_node("Concat", ["sum", "sum"], ["scale"], axis=0),
        helper.make_node("Cast", ["scale"], ["float"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["x", "float"], ["s"]),
        helper.make_node("MatMul", ["s", "w"], ["y"]),
    ]
    model = model_of(nodes)
    graph = specialize(model, batch=2)
    assert [node.op_type for node in graph.nodes] == ["Mul", "MatMul"]
    x = np.ones((2, 4), np.float32)
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_allclose((x * graph.constants["float"]) @ W, expected)


def test_a_branch_that_is_not_taken_has_no_part_in_inference() -> None:
    """As PyTorch's exporter asks for the rank of a table that it scatters to."""
    branch = {
        name: helper.make_graph(
            [helper.make_node(op_type, [*inputs], [name], name)],
            name,
            [],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)],
        )
        for name, op_type, inputs in (
            ("then", "Reshape", ("x", "flat")),
            ("else", "Identity", ("x",)),
        )
    }
    nodes = [
        const("table", np.zeros((2, 3), np.float32)),
        helper.make_node("Shape", ["table"], ["sizes"]),
        helper.make_node("Size", ["sizes"], ["rank"]),
        helper.make_node("Equal", ["rank", "zero"], ["is_scalar"]),
        helper.make_node(
            "If", ["is_scalar"], ["h"], then_branch=branch["then"], else_branch=branch["else"]
        ),
        helper.make_node("Gemm", ["h", "w"], ["y"]),
    ]
    given = {"zero": np.array(0), "flat": np.array([-1])}
    graph = specialize(model_of(nodes, given), batch=2)
    assert graph.shapes["y"] == (2, 3)


def test_nodes_that_are_written_alike_but_read_something_else_are_not_taken_for_one() -> None:
    nodes = [
        const("two", np.float32(2)),
        const("also two", np.float32(2)),
        const("zero", np.float32(0)),
        const("less than zero", np.float32(-0.0)),
        const("whole", np.int32(2)),
        helper.make_node("Div", ["two", "zero"], ["up"]),
        helper.make_node("Div", ["two", "less than zero"], ["down"]),
        helper.make_node("Sub", ["two", "zero"], ["a"]),
        helper.make_node("Sub", ["zero", "two"], ["b"]),
        helper.make_node("Sub", ["two", "two"], ["c"]),
        helper.make_node("Cast", ["two"], ["d"], to=TensorProto.INT32),
        helper.make_node("Cast", ["two"], ["e"], to=TensorProto.INT64),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    for _ in range(2):
        constants = specialize(model_of(nodes), batch=2).constants
        assert {name: float(constants[name]) for name in ("up", "down", "a", "b", "c")} == {
            "up": np.inf,
            "down": -np.inf,
            "a": 2,
            "b": -2,
            "c": 0,
        }
        dtypes = [constants[name].dtype.name for name in ("whole", "d", "e", "also two")]
        assert dtypes == ["int32", "int32", "int64", "float32"]


def test_a_model_of_many_alike_nodes_evaluates_each_kind_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodes = [const(f"n{each}", np.full(3, 0.1357, np.float32)) for each in range(50)]
    nodes += [helper.make_node("Neg", [f"n{each}"], [f"m{each}"]) for each in range(50)]
    nodes.append(helper.make_node("MatMul", ["x", "w"], ["y"]))
    run, ran = folding._run, list[str]()

    def counted(graph: Graph, node: onnx.NodeProto, feeds: folding.Values) -> folding.Values | None:
        ran.append(node.op_type)
        return run(graph, node, feeds)

    monkeypatch.setattr(folding, "_MADE", {})
    monkeypatch.setattr(folding, "_run", counted)
    graph = specialize(model_of(nodes), batch=2)
    assert ran == ["Neg"]
    assert graph.constants["m0"] is graph.constants["m49"]
    assert not graph.constants["m0"].flags.writeable
