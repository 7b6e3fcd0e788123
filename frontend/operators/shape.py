"""Operators that only move or rename elements."""

import numpy as np

from odtc.frontend.operators.operator import Emit, Node, Operator


def _static_shape(node: Node) -> str:
    return "" if node.output_shape() is not None else "the output's shape is not static"


def _to_reshape(node: Node, emit: Emit) -> str | None:
    """Flatten, Squeeze, Unsqueeze and computed reshapes become one Reshape to a static shape."""
    shape = node.output_shape()
    if shape is None or (node.proto.op_type == "Reshape" and node.ints("", 1) == list(shape)):
        return None
    return emit("Reshape", node.inputs[0], np.array(shape, np.int64))


def _one_input(node: Node, _: Emit) -> str | None:
    """A Concat of one tensor, as PyTorch's DenseNet has it, is that tensor."""
    return node.inputs[0] if len(node.proto.input) == 1 else None


_RESHAPE = Operator(condition=_static_shape, expand=_to_reshape)

OPERATORS: dict[str, Operator] = {
    "Concat": Operator(expand=_one_input),
    "Flatten": _RESHAPE,
    "Identity": Operator(expand=lambda node, _: node.inputs[0]),
    "Reshape": _RESHAPE,
    "Squeeze": _RESHAPE,
    "Transpose": Operator(),
    "Unsqueeze": _RESHAPE,
}
