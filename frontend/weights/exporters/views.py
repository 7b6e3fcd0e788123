"""Gives parameters that an exporter folded their own names and shapes again.

A folded tensor gives way to the parameter and to the node that lays it out: a Transpose of a linear
layer's weight, a Reshape of a row of numbers, an Expand of what is the same for each sample; or to
the Exp of a parameter. Which of them it is, if any, `layouts` tells.
"""

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper

from odtc.frontend.graph import attributes
from odtc.frontend.weights.editing import LEFT_OUT, Editing
from odtc.frontend.weights.evidence.layouts import form_of
from odtc.frontend.weights.exporters.torch_metadata import Call


def give_view(
    editing: Editing,
    place: int,
    slot: int,
    target: str,
    through: Sequence[str],
    call: Call,
    how: str,
) -> str | None:
    """Lets a node read a parameter through the node that lays it out.

    Args:
        editing: of the graph.
        place: of the node that reads the folded tensor.
        slot: the input that it is.
        target: name of the parameter.
        through: names of all that went into the folded tensor, but for its parameter.
        call: that the node is a part of.
        how: what is noted of the parameter.

    Returns:
        The name of the folded tensor; None where it is of no known form, or where the file has the
        parameter with other elements.
    """
    node = editing.graph.node[place]
    folded = node.input[slot]
    value = editing.value(folded)
    is_weight = node.op_type == "MatMul" and slot == 1
    op_type, own = form_of(folded, through, value, call, is_weight=is_weight)
    if own is None or not _own(editing, target, own, folded, how):
        return None
    if op_type == "Transpose" and is_weight:
        turn(editing, place, target)
    elif op_type in ("Exp", "Transpose"):
        _put(editing, place, slot, op_type, [target])
    else:
        _lay_out(editing, place, slot, target, op_type, value.shape)
    return folded


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


def _outputs(node: onnx.NodeProto, dims: Sequence[int]) -> int:
    given = attributes(node)
    if node.op_type == "ConvTranspose":
        return dims[1] * int(given.get("group", 1))
    return dims[1] if node.op_type == "Gemm" and not given.get("transB") else dims[0]
