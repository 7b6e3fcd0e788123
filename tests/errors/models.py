"""Small models that are valid, or that are wrong in one way."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def node(op_type: str, inputs: Sequence[str], output: str, **attributes: Any) -> onnx.NodeProto:
    """A node whose name is its output's."""
    return helper.make_node(op_type, inputs, [output], name=output, **attributes)


def dense(*nodes: onnx.NodeProto, x: Sequence[str | int] = ("N", 4)) -> onnx.ModelProto:
    """A model from `x` to `y` with the weights `w` [4, 3] and `v` [4, 4]."""
    rng = np.random.default_rng(0)
    weights = {"w": rng.normal(size=(4, 3)), "v": rng.normal(size=(4, 4))}
    graph = helper.make_graph(
        list(nodes),
        "dense",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", "classes"])],
        [numpy_helper.from_array(w.astype(np.float32), name) for name, w in weights.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


LINEAR = dense(node("MatMul", ["x", "w"], "y"))


def with_value(model: onnx.ModelProto, value: float) -> onnx.ModelProto:
    """The model with that value in its first weight, once."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    array = numpy_helper.to_array(copy.graph.initializer[0]).copy()
    array.flat[-1] = value
    copy.graph.initializer[0].CopyFrom(numpy_helper.from_array(array, "w"))
    return copy


def sized(model: onnx.ModelProto, *sizes: int) -> onnx.ModelProto:
    """The model with other sizes of its first weight, whose data stays."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    del copy.graph.initializer[0].dims[:]
    copy.graph.initializer[0].dims.extend(sizes)
    return copy


def behind(op_type: str, data: str = "h", **attributes: Any) -> onnx.ModelProto:
    """A model with that operator between two products; `data` is what it reads."""
    return dense(
        node("MatMul", ["x", "v"], "h"),
        node(op_type, [data], "a", **attributes),
        node("MatMul", ["a", "w"], "y"),
    )


# Attributes of a TfIdfVectorizer.
WORDS: dict[str, Any] = {
    "max_gram_length": 1,
    "max_skip_count": 0,
    "min_gram_length": 1,
    "mode": "TF",
    "ngram_counts": [0],
    "ngram_indexes": [0],
    "pool_int64s": [1],
}

# A weight on the left of a product, and a weight that two products share.
LEFT_OPERAND = dense(
    node("Transpose", ["x"], "t", perm=[1, 0]),
    node("MatMul", ["v", "t"], "u"),
    node("Transpose", ["u"], "h", perm=[1, 0]),
    node("MatMul", ["h", "w"], "y"),
)
SHARED = dense(
    node("MatMul", ["x", "v"], "h"),
    node("MatMul", ["h", "v"], "a"),
    node("MatMul", ["a", "w"], "y"),
)


def dropping(*inputs: str, fed: str, dtype: int) -> onnx.ModelProto:
    """A model with a dropout that reads these, of which one is an input of the graph."""
    on = numpy_helper.from_array(np.array(True))
    model = dense(
        node("Constant", [], "on", value=on),
        node("MatMul", ["x", "v"], "h"),
        node("Dropout", ["h", *inputs], "a"),
        node("MatMul", ["a", "w"], "y"),
    )
    model.graph.input.append(helper.make_tensor_value_info(fed, dtype, []))
    return model


FED_MODE = dropping("", "mode", fed="mode", dtype=TensorProto.BOOL)
FED_RATIO = dropping("ratio", "on", fed="ratio", dtype=TensorProto.FLOAT)

# A division by a constant zero, and a loop that would be unrolled for ever.
DIVIDED_BY_ZERO = dense(
    node("Constant", [], "zero", value=numpy_helper.from_array(np.float32(0))),
    node("MatMul", ["x", "v"], "h"),
    node("Div", ["h", "zero"], "a"),
    node("MatMul", ["a", "w"], "y"),
)


def looping(trips: int) -> onnx.ModelProto:
    """A model with a loop of constant length."""
    scalars = [("trip", TensorProto.INT64), ("go", TensorProto.BOOL), ("on", TensorProto.BOOL)]
    trip, go, on = (helper.make_tensor_value_info(name, kind, []) for name, kind in scalars)
    before, after = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("s", "r")
    )
    body = helper.make_graph(
        [node("Identity", ["go"], "on"), node("Tanh", ["s"], "r")],
        "body",
        [trip, go, before],
        [on, after],
    )
    return dense(
        node("Constant", [], "trips", value=numpy_helper.from_array(np.int64(trips))),
        node("MatMul", ["x", "v"], "h"),
        node("Loop", ["trips", "", "h"], "a", body=body),
        node("MatMul", ["a", "w"], "y"),
    )


TRAINING_DOMAIN = "ai.onnx.preview.training"
TWO_GRADIENTS = dense(
    node("MatMul", ["x", "w"], "y"),
    node("Gradient", ["x"], "first", xs=["x"], y="y", domain=TRAINING_DOMAIN),
    node("Gradient", ["x"], "second", xs=["x"], y="y", domain=TRAINING_DOMAIN),
)
TWO_GRADIENTS.opset_import.append(helper.make_opsetid(TRAINING_DOMAIN, 1))
