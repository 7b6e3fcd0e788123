"""Numbers read as other numbers with the same bits."""

import numpy as np
from onnx import helper

from odtc.dialect.elements.bit_cast import bit_cast
from odtc.frontend.operators.operator import Level, Node, Operator


def _same_size(node: Node) -> str:
    """Both types have as many bits."""
    target = np.dtype(_target(node))
    if np.dtype(node.dtype()).itemsize == target.itemsize:
        return ""
    return f"{node.dtype()} and {target.name} have not as many bits"


def _target(node: Node) -> str:
    return helper.tensor_dtype_to_np_dtype(node.attrs["to"]).name


OPERATORS: dict[str, Operator] = {
    "BitCast": Operator(
        Level.FORWARD_ONLY,
        condition=_same_size,
        convert=lambda _, node, inputs: bit_cast(inputs[0], dtype=_target(node)),
        encodes=True,
    ),
}
