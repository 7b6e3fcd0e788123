"""A model whose first step is not finite: its weights are so large that products overflow."""

import numpy as np
import onnx
from onnx import numpy_helper

FACTOR = np.float32(1e30)


def overflowing(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with such weights."""
    found = onnx.ModelProto()
    found.CopyFrom(model)
    for initializer in found.graph.initializer:
        array = numpy_helper.to_array(initializer)
        if array.dtype == np.float32:
            initializer.CopyFrom(numpy_helper.from_array(array * FACTOR, initializer.name))
    return found
