"""Gives parameters that an exporter folded their own names and shapes again.

A folded tensor gives way to the parameter and to the node that lays it out: a Transpose of a linear
layer's weight, a Reshape of a row of numbers, an Expand of what is the same for each sample; or to
the Exp of a parameter.
"""

import re
from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper

from odtc.frontend.graph import attributes
from odtc.frontend.weights.editing import LEFT_OUT, Editing
from odtc.frontend.weights.torch_metadata import Call

# What the program calls the exponential of a tensor.
_EXP = re.compile(r"exp(_\d+)?")
_LINEAR = "torch.ops.aten.linear.default"


def give_view(
    editing: Editing, place: int, slot: int, target: str, call: Call, how: str
) -> str | None:
    """Lets a node read a parameter through the node that lays it out.

    Args:
        editing: of the graph.
        place: of the node that reads the folded tensor.
        slot: the input that it is.
        target: name of the parameter.
        call: that the node is a part of.
        how: what is noted of the parameter.

    Returns:
        The name of the folded tensor; None where it is of no known form, or where the file has the
        parameter with other elements.
    """
    node = editing.graph.node[place]
    folded = node.input[slot]
    value = editing.value(folded)
    is_weight = call.target == _LINEAR and node.op_type == "MatMul" and slot == 1
    op_type, own = _form(folded, value, is_weight=is_weight)
    if own is None or not _own(editing, target, own, folded, how):
        return None
    if op_type == "Transpose":
        turn(editing, place, target)
    elif op_type == "Exp":
        _put(editing, place, slot, op_type, [target])
    else:
        _lay_out(editing, place, slot, target, op_type, value.shape)
    return folded


def is_exp(folded: str) -> bool:
    """Whether the name of a folded tensor says that it is the exponential of another."""
    return _EXP.fullmatch(folded) is not None


def _form(folded: str, value: np.ndarray, *, is_weight: bool) -> tuple[str, np.ndarray | None]:
    """The operator that makes a folded tensor, and the parameter that it is made of."""
    if is_weight and value.ndim == 2:
        return "Transpose", value.T
    if is_exp(folded) and (value > 0).all():
        return "Exp", np.log(value)
    if value.ndim > 1 and sum(size != 1 for size in value.shape) == 1:
        return "Reshape", value.ravel()
    return "Expand", value[:1] if folded.startswith("expand") and _is_repeated(value) else None


def turn(editing: Editing, place: int, original: str) -> None:
    """Lets a product read a stored matrix through a Transpose."""
    node = editing.graph.node[place]
    turned = f"{node.output[0]}::{original}"
    node.input[1] = turned
    name = f"{node.name or node.output[0]}/Transpose"
    made = helper.make_node("Transpose", [original], [turned], name, perm=[1, 0])
    editing.before.setdefault(place, []).append(made)


def add_bias(editing: Editing, place: int, target: str) -> None:
    """Gives a Conv, a ConvTranspose or a Gemm the bias of zeros that it had."""
    node = editing.graph.node[place]
    weight = node.input[1]
    if weight not in editing.tensors or len(editing.tensors[weight].dims) < 2:
        return
    size = _outputs(node, editing.value(weight).shape)
    if target not in editing.tensors:
        editing.store(target, np.zeros(size), weight, f"{LEFT_OUT}: {weight}")
    elif not np.array_equal(editing.value(target), np.zeros(size)):
        return
    node.input.append(target)


def _lay_out(
    editing: Editing, place: int, slot: int, target: str, op_type: str, sizes: Sequence[int]
) -> None:
    held = f"{editing.graph.node[place].output[0]}::{target}::sizes"
    editing.store_sizes(held, sizes)
    _put(editing, place, slot, op_type, [target, held])


def _put(editing: Editing, place: int, slot: int, op_type: str, inputs: Sequence[str]) -> None:
    """Lets a node read a parameter through another node."""
    node = editing.graph.node[place]
    stem = f"{node.output[0]}::{inputs[0]}"
    made = helper.make_node(op_type, inputs, [stem], f"{stem}/{op_type}")
    editing.before.setdefault(place, []).append(made)
    node.input[slot] = stem


def _own(editing: Editing, target: str, value: np.ndarray, folded: str, how: str) -> bool:
    """Stores a parameter; tells whether the file has it with these elements."""
    if target not in editing.tensors:
        editing.store(target, value, folded, how)
        return True
    held = editing.value(target)
    return held.shape == value.shape and bool(np.array_equal(held, value))


def _is_repeated(value: np.ndarray) -> bool:
    return value.ndim > 1 and len(value) > 1 and bool((value == value[:1]).all())


def _outputs(node: onnx.NodeProto, dims: Sequence[int]) -> int:
    given = attributes(node)
    if node.op_type == "ConvTranspose":
        return dims[1] * int(given.get("group", 1))
    return dims[1] if node.op_type == "Gemm" and not given.get("transB") else dims[0]
