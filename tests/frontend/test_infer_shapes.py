"""Shapes are inferred without the values of large constants, such as the codes of a weight."""

import numpy as np
from onnx import helper

from odtc.core.specs import TensorSpec
from odtc.frontend.graph import Graph


def graph() -> Graph:
    nodes = [
        helper.make_node("DequantizeLinear", ["codes", "scale"], ["w"], block_size=32, axis=0),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
        helper.make_node("Reshape", ["y", "shape"], ["z"]),
    ]
    constants = {
        "codes": np.ones((512, 256), np.int8),
        "scale": np.ones((16, 256), np.float32),
        "shape": np.array([-1, 64]),
    }
    return Graph(nodes, (TensorSpec("x", (3, 512), "float32"),), {}, constants, ["z"], opset=21)


def test_shapes_behind_a_large_constant_and_of_a_small_one() -> None:
    found = graph()
    found.infer_shapes()
    assert found.shapes["w"] == found.shapes["codes"] == (512, 256)
    assert (found.shapes["z"], found.dtypes["codes"]) == ((12, 64), "int8")


def test_a_model_holds_small_constants_alone_where_that_is_asked() -> None:
    whole, small = graph().to_model(), graph().to_model(most=1 << 16)
    assert whole.ByteSize() > 512 * 256 > 1 << 16 > small.ByteSize()
    assert [each.name for each in small.graph.initializer] == ["scale", "shape"]
    assert [each.name for each in small.graph.input] == ["x", "codes"]
