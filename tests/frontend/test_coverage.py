"""The report of `check` on an operator agrees with what compilation does."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import odtc
from odtc.core.errors import UnsupportedError
from odtc.frontend.coverage import check_graph
from odtc.frontend.file.specialize import specialize
from odtc.frontend.operators.operator import Level
from odtc.frontend.operators.table import OPERATORS
from tests.numeric.conftest import listing

WIDTH = 6
W = np.random.default_rng(0).standard_normal((WIDTH, 4)).astype(np.float32)


def model_of(op_type: str, trained: bool, constants: dict, attributes: dict) -> onnx.ModelProto:
    """`[x + p ->] op -> matmul`: the operator reads what is trained, or only the input."""
    nodes = [helper.make_node("Add", ["x", "p"], ["h"], "add")] if trained else []
    nodes += [
        helper.make_node(op_type, ["h" if trained else "x", *constants], ["y"], "op", **attributes),
        helper.make_node("Reshape", ["y", "target"], ["r"], "flat"),
        helper.make_node("MatMul", ["r", "w"], ["logits"], "head"),
    ]
    tensors = {
        "w": W,
        "p": np.ones(WIDTH, np.float32),
        "target": np.array([-1, WIDTH]),
        **constants,
    }
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, WIDTH])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [None, 4])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in tensors.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return listing(model, ["w", "p"])


# Operator to its constant inputs and attributes.
FORWARD_ONLY = {
    "Hardmax": ({}, {"axis": 0}),
}


def test_every_forward_only_operator_has_a_case() -> None:
    listed = {name for name, item in OPERATORS.items() if item.level is Level.FORWARD_ONLY}
    # Those of integers that stand for floats are in test_quantization.py.
    assert set(FORWARD_ONLY) == {name for name in listed if not OPERATORS[name].encodes}


@pytest.mark.parametrize("name", FORWARD_ONLY)
def test_forward_only_operators_give_the_right_values(name: str, tmp_path) -> None:
    constants, attributes = FORWARD_ONLY[name]
    model = model_of(name, False, constants, attributes)
    onnx.save(model, tmp_path / "m.onnx")
    x = np.random.default_rng(1).standard_normal((4, WIDTH)).astype(np.float32)
    expected = ReferenceEvaluator(model).run(None, {"x": x})[0]
    graph = specialize(model)
    assert not any(report.blocks for report in check_graph(graph))
    trainer = odtc.compile(tmp_path / "m.onnx").trainer()
    found = trainer.evaluate(x)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", FORWARD_ONLY)
def test_forward_only_operators_are_refused_where_something_is_trained(name: str) -> None:
    constants, attributes = FORWARD_ONLY[name]
    reports = check_graph(specialize(model_of(name, True, constants, attributes)))
    (report,) = [each for each in reports if each.op_type == name]
    assert (report.level, report.blocks) == (Level.FORWARD_ONLY, True)
    assert report.node == f"op ({name})"


def test_the_error_names_node_and_reason(tmp_path) -> None:
    onnx.save(model_of("Hardmax", True, {}, {}), tmp_path / "m.onnx")
    with pytest.raises(UnsupportedError) as failure:
        odtc.compile(tmp_path / "m.onnx")
    assert str(failure.value).startswith(
        "1 of 4 nodes cannot be trained:\n  op (Hardmax): forward-only: no gradient in this version"
    )
