"""A multilayer perceptron, from `x` to `y`."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

BATCH = 4


def mlp(size: int, hidden: int, classes: int, seed: int = 0) -> onnx.ModelProto:
    """A model of random float32 weights `w [size, hidden]`, `b [hidden]`, `v [hidden, classes]`.

    Args:
        size: of an input, of which there are `BATCH`.
        hidden: features between the two layers.
        classes: of the scores.
        seed: of the weights.
    """
    rng = np.random.default_rng(seed)
    shapes = {"w": (size, hidden), "b": (hidden,), "v": (hidden, classes)}
    weights = [
        numpy_helper.from_array(rng.standard_normal(shape, np.float32), name)
        for name, shape in shapes.items()
    ]
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "v"], ["y"]),
    ]
    given, found = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [BATCH, width])
        for name, width in (("x", size), ("y", classes))
    )
    return helper.make_model(helper.make_graph(nodes, "mlp", [given], [found], weights))
