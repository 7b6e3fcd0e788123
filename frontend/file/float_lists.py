"""Makes tensors of the numbers that Constant nodes hold as floats, so that they can be weights.

Such a node has an attribute `value_float` or `value_floats` in place of a tensor.
"""

from collections.abc import Iterable

import numpy as np
import onnx
from onnx import helper, numpy_helper

from odtc.core.onnx_model.weight_places import bodies_of


def floats_as_tensors(nodes: Iterable[onnx.NodeProto]) -> None:
    """Changes the Constant nodes, in bodies too, in place; they give what they gave."""
    for node in nodes:
        if node.op_type == "Constant" and len(node.attribute) == 1:
            _change(node)
        for body in bodies_of(node):
            floats_as_tensors(body.node)


def _change(node: onnx.NodeProto) -> None:
    (held,) = node.attribute
    if held.name not in ("value_float", "value_floats"):
        return
    value = np.array(helper.get_attribute_value(held), np.float32)
    held.CopyFrom(helper.make_attribute("value", numpy_helper.from_array(value)))
