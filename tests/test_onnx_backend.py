"""odtc through ONNX's own interface, and those of ONNX's tests that are about training."""

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper

from odtc import onnx_backend
from odtc.core.errors import DataError, ModelError, UnsupportedError
from tests.conformance.kept_names import kept_names
from tests.conformance.page import TRAINING
from tests.conformance.worker import Kind, check, names
from tests.fast import fast_if

X = np.arange(6, dtype=np.float32).reshape(2, 3)
OTHERS = [
    "node/test_gemm_all_attributes",
    "node/test_cumsum_1d_reverse",
    "simple/test_gradient_of_add",
    # Their results are constants.
    "node/test_constantofshape_float_ones",
    "node/test_shape",
]


def model(*nodes: onnx.NodeProto, outputs: str = "y") -> onnx.ModelProto:
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs.split()],
    )
    for value in graph.output:
        value.type.tensor_type.shape.SetInParent()
        value.type.tensor_type.shape.dim.add()
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


TRAINING_TESTS = [name for name in kept_names() if TRAINING.search(name)]


def test_onnx_has_tests_of_training() -> None:
    assert kept_names() == names()
    assert len(TRAINING_TESTS) > 100


# `make conformance` takes all of ONNX's tests.
FAST = {*OTHERS, *TRAINING_TESTS[::3]}


@pytest.mark.parametrize("name", fast_if(FAST.__contains__, [*OTHERS, *TRAINING_TESTS]))
def test_conformance(name: str) -> None:
    outcome = check(name)
    assert outcome.kind is Kind.PASSED, outcome.reason


def test_several_outputs_come_in_order() -> None:
    made = model(
        helper.make_node("Neg", ["x"], ["n"]), helper.make_node("Abs", ["n"], ["a"]), outputs="a n"
    )
    for size in (2, 1):
        a, n = onnx_backend.run_model(made, {"x": X[:size]})
        np.testing.assert_array_equal(n, -X[:size])
        np.testing.assert_array_equal(a, X[:size])


def test_a_node_runs_alone() -> None:
    node = helper.make_node("MatMul", ["a", "b"], ["c"])
    (result,) = onnx_backend.run_node(node, [X, X.T])
    np.testing.assert_allclose(result, X @ X.T)


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int64, np.int8, np.uint8])
def test_other_dtypes(dtype: type) -> None:
    node = helper.make_node("Add", ["a", "b"], ["c"])
    (result,) = onnx_backend.run_node(node, [X.astype(dtype), X.astype(dtype)])
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, X.astype(dtype) * 2)


def test_what_cannot_be_run_is_refused() -> None:
    node = helper.make_node("NonZero", ["x"], ["y"])
    with pytest.raises(UnsupportedError, match="what it searches must be constant"):
        onnx_backend.run_node(node, [np.ones((9, 9), np.float32)])
    with pytest.raises(UnsupportedError, match="'CUDA': models run forward on CPU only"):
        onnx_backend.prepare(model(helper.make_node("Neg", ["x"], ["y"])), "CUDA")
    with pytest.raises(DataError, match="0 inputs were given; the model has 1"):
        onnx_backend.run_model(model(helper.make_node("Neg", ["x"], ["y"])), [])
    with pytest.raises(UnsupportedError, match="takes real numbers"):
        onnx_backend.run_model(model(helper.make_node("Neg", ["x"], ["y"])), [X.astype(complex)])
    with pytest.raises(ModelError, match="breaks the ONNX standard"):
        onnx_backend.prepare(model(helper.make_node("Nothing", ["x"], ["y"])))


def test_bfloat16_is_computed_in_float32_and_rounded_once() -> None:
    """The product alone, rounded, would be 1: nothing would be left."""
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 22]> '
        "f (bfloat16[2] x, bfloat16[2] w) => (bfloat16[2] y) { m = Mul (x, w) y = Sub (m, w) }"
    )
    dtype = helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)
    x, w = np.array([1.0078125, 3], dtype), np.array([0.9921875, -2], dtype)
    (y,) = onnx_backend.run_model(model, [x, w])
    assert y.dtype == dtype
    wide = [each.astype(np.float32) for each in (x, w)]
    np.testing.assert_array_equal(y, (wide[0] * wide[1] - wide[1]).astype(dtype))


def test_a_value_of_a_type_that_no_program_holds_is_refused() -> None:
    """It is known when the model is compiled, and could not leave the program."""
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.INT4)
    x = np.ones((3, 5), np.float32)
    with pytest.raises(UnsupportedError, match="int4"):
        onnx_backend.run_node(node, [x])
