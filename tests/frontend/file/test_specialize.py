"""Batches and symbolic dimensions are bound, and what depends on shapes follows."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import odtc
from odtc.core.errors import UsageError
from odtc.frontend.file.specialize import specialize
from odtc.frontend.normalize.pipeline import normalize


def model_of(nodes, inputs, initializers, output="y") -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, [None, None])],
        [numpy_helper.from_array(value, name) for name, value in initializers.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


W = {"w": np.ones((6, 5), np.float32)}


def test_symbolic_batch_is_bound() -> None:
    model = model_of([helper.make_node("MatMul", ["x", "w"], ["y"])], [("x", ["N", 6])], W)
    graph = specialize(model, batch=3)
    assert graph.inputs[0].shape == (3, 6)
    assert graph.shapes["y"] == (3, 5)


def test_fixed_batch_is_changed_and_reshapes_of_data_follow() -> None:
    nodes = [
        helper.make_node("Reshape", ["x", "s"], ["f"]),
        helper.make_node("MatMul", ["f", "w"], ["m"]),
        # A weight whose target starts with 1, as the batch does, stays as it is.
        helper.make_node("Reshape", ["b", "t"], ["c"]),
        helper.make_node("Add", ["m", "c"], ["y"]),
    ]
    constants = {
        **W,
        "s": np.array([1, 6], np.int64),
        "b": np.ones(5, np.float32),
        "t": np.array([1, 5], np.int64),
    }
    graph = normalize(specialize(model_of(nodes, [("x", [1, 2, 3])], constants), batch=4))
    assert graph.shapes["y"] == (4, 5)
    assert graph.shapes["c"] == (1, 5)


def test_what_merely_has_the_size_of_the_batch_keeps_it() -> None:
    """A table of two halves, in a file of two samples: its Reshape is not to copy anything."""
    nodes = [
        helper.make_node("Relu", ["table"], ["r"]),
        helper.make_node("Reshape", ["r", "halves"], ["h"]),
        helper.make_node("ReduceMax", ["h"], ["top"], axes=[0], keepdims=0),
        helper.make_node("Reshape", ["x", "rows"], ["f"]),
        helper.make_node("MatMul", ["f", "w"], ["m"]),
        helper.make_node("Add", ["m", "top"], ["y"]),
    ]
    constants = {
        **W,
        "table": np.ones((10, 1), np.float32),
        "halves": np.array([2, -1], np.int64),
        "rows": np.array([2, 6], np.int64),
    }
    graph = normalize(specialize(model_of(nodes, [("x", [2, 2, 3])], constants), batch=4))
    assert graph.shapes["h"] == (2, 5)
    assert graph.shapes["y"] == (4, 5)


def test_fixed_batch_is_changed_where_the_target_is_a_constant_node() -> None:
    target = numpy_helper.from_array(np.array([1, -1], np.int64))
    nodes = [
        helper.make_node("Constant", [], ["s"], value=target),
        helper.make_node("Reshape", ["x", "s"], ["f"]),
        helper.make_node("MatMul", ["f", "w"], ["y"]),
    ]
    graph = specialize(model_of(nodes, [("x", [1, 2, 3])], W), batch=4)
    assert graph.shapes["y"] == (4, 5)


def test_other_symbols_need_a_size() -> None:
    model = model_of([helper.make_node("MatMul", ["x", "w"], ["y"])], [("x", ["N", "T", 6])], W)
    with pytest.raises(UsageError, match="without a size: T") as failure:
        specialize(model, batch=2)
    assert "--shape T=" in str(failure.value)
    assert specialize(model, batch=2, shape={"T": 7}).inputs[0].shape == (2, 7, 6)


def test_shape_arithmetic_of_an_exporter_is_folded(tmp_path) -> None:
    """`view(x.size(0), -1)` as an exporter writes it: Shape, Gather, Unsqueeze, Concat, Reshape."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["n"], axis=0),
        helper.make_node("Unsqueeze", ["n", "axis"], ["n1"]),
        helper.make_node("Concat", ["n1", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["f"]),
        helper.make_node("MatMul", ["f", "w"], ["y"]),
    ]
    constants = {
        **W,
        "zero": np.array(0, np.int64),
        "axis": np.array([0], np.int64),
        "rest": np.array([-1], np.int64),
    }
    model = model_of(nodes, [("x", ["N", 2, 3])], constants)
    graph = normalize(specialize(model, batch=4))
    assert [node.op_type for node in graph.nodes] == ["Reshape", "MatMul"]
    onnx.save(model, tmp_path / "m.onnx")
    trainer = odtc.compile(tmp_path / "m.onnx", batch=4).trainer()
    x = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
    np.testing.assert_allclose(trainer.evaluate(x), x.reshape(4, 6) @ W["w"], rtol=1e-6)
