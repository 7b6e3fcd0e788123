"""Reductions over axes."""

import numpy as np

from odtc.frontend.operators.operator import FORWARD_ONLY, Emit, Node, Operator

# Since these opsets the axes are an input; before, an attribute.
_AXES_INPUT_SINCE = {"ReduceSum": 13}


def reduce(
    node: Node, emit: Emit, op_type: str, data: str, axes: list[int], keepdims: int = 1
) -> str:
    """Emits a reduction in the form of the node's opset."""
    if node.opset < _AXES_INPUT_SINCE.get(op_type, 18):
        return emit(op_type, data, axes=axes, keepdims=keepdims)
    return emit(op_type, data, np.array(axes, np.int64), keepdims=keepdims)


OPERATORS: dict[str, Operator] = {
    "ReduceMean": Operator(),
    "ReduceSum": Operator(),
    "ReduceMax": FORWARD_ONLY,
    "ReduceMin": FORWARD_ONLY,
}
