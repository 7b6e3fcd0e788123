"""Operators of onnxruntime's own, `com.microsoft`, as its quantizers write them.

MatMulNBits multiplies by a matrix that it holds in 4 or 8 bits, transposed and in blocks of columns
with a scale each, which becomes a DequantizeLinear, a Transpose and a MatMul. Its elements are one
after the other, the first in the lower half of a byte.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper

from odtc.core.errors import ModelError, UnsupportedError
from odtc.frontend.graph import Graph, attributes, describe_node
from odtc.frontend.normalize.control.subgraphs import Inlined, rename

DOMAIN = "com.microsoft"
_A, _B, _SCALES, _ZEROS, _ORDER, _BIAS = range(6)
_BITS = (4, 8)
# By operator that has a form: what to do where a node of it has none.
FORM_HINTS = {
    "MatMulNBits": "quantize to 4 or 8 bits, with weights that are constants of the file, without "
    "g_idx, and not prepacked for a GPU"
}
_HINT = "quantize the model again, and check that the file was copied whole"


def lower_contrib(graph: Graph) -> None:
    """Puts ONNX's own operators in place of those that have a form.

    Args:
        graph: as it was read. What is left of the domain is refused later.

    Raises:
        ModelError: the tensors of a node do not fit its attributes.
        UnsupportedError: zero points are no integers.
    """
    nodes: list[onnx.NodeProto] = []
    for node in graph.nodes:
        if node.domain != DOMAIN or not _is_lowered(graph, node):
            nodes.append(node)
            continue
        inlined = Inlined(graph, node.output[0])
        result = _product(graph, node, inlined)
        nodes.extend(rename(each, {result: node.output[0]}) for each in inlined.nodes)
    graph.nodes = nodes


def _is_lowered(graph: Graph, node: onnx.NodeProto) -> bool:
    """Whether it is a product with a matrix that the file holds, whose elements are in order."""
    attrs = attributes(node)
    if node.op_type != "MatMulNBits" or attrs.get("bits", 4) not in _BITS:
        return False
    # Packed for the kernels of one GPU, its elements lie in an order of their own.
    if attrs.get("weight_prepacked", 0):
        return False
    held = [name in graph.constants for name in node.input[_B : _ZEROS + 1] if name]
    return all(held) and not _input(node, _ORDER)


def _input(node: onnx.NodeProto, slot: int) -> str:
    return node.input[slot] if slot < len(node.input) else ""


def _product(graph: Graph, node: onnx.NodeProto, inlined: Inlined) -> str:
    attrs = attributes(node)
    try:
        codes, zeros, scales = _matrix(graph, node, attrs)
    except ValueError as error:
        raise ModelError(
            f"the matrix does not fit the attributes: {error}",
            where=f"node {describe_node(node)}",
            hint=_HINT,
        ) from error
    # Adapters and messages know the matrix by its own name, which no other node may read otherwise.
    weight = node.input[_B]
    name = weight if _is_read_once(graph, weight) else graph.add_constant("codes", codes)
    graph.constants[name] = codes
    given = graph.add_constant("scales", scales.astype(np.float32))
    zero = graph.add_constant("zeros", zeros)
    block = codes.shape[1] // scales.shape[1]
    (matrix,) = inlined.emit("DequantizeLinear", name, given, zero, axis=1, block_size=block)
    if scales.dtype != np.float32:
        to = helper.np_dtype_to_tensor_dtype(scales.dtype)
        (matrix,) = inlined.emit("Cast", matrix, to=to)
    (turned,) = inlined.emit("Transpose", matrix, perm=[1, 0])
    (result,) = inlined.emit("MatMul", node.input[_A], turned)
    if _input(node, _BIAS):
        (result,) = inlined.emit("Add", result, node.input[_BIAS])
    return result


def _is_read_once(graph: Graph, name: str) -> bool:
    return sum(list(node.input).count(name) for node in graph.nodes) == 1


def _matrix(
    graph: Graph, node: onnx.NodeProto, attrs: Mapping[str, Any]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes by rows and columns, zero points and scales by rows and blocks.

    Raises:
        ValueError: there are too few or too many of one, or an attribute is no size.
    """
    bits = int(attrs.get("bits", 4))
    rows, columns, block = (_size(attrs, name) for name in ("N", "K", "block_size"))
    blocks = -(-columns // block)
    stored = graph.constants[node.input[_B]]
    if stored.dtype != np.uint8:
        raise ValueError(f"its elements are {stored.dtype}, and have to be uint8")
    codes = _unpacked(stored, bits, rows, blocks * block)[:, :columns]
    scales = graph.constants[node.input[_SCALES]].reshape(rows, blocks)
    name = _input(node, _ZEROS)
    held = graph.constants[name] if name else np.full((rows, blocks), 1 << (bits - 1), np.uint8)
    if held.dtype == np.uint8 and name:
        held = _unpacked(held, bits, rows, blocks)
    zeros = held.reshape(rows, blocks)
    if zeros.dtype != np.uint8:
        zeros = _whole(node, zeros)
    # Where the last block has fewer columns, all are cut into such as fit.
    each = math.gcd(block, columns)
    parts = [np.repeat(item, block // each, 1)[:, : columns // each] for item in (zeros, scales)]
    return np.ascontiguousarray(codes), parts[0], parts[1]


def _size(attrs: Mapping[str, Any], name: str) -> int:
    """An attribute that is a number of elements.

    Raises:
        ValueError: it is missing, or is none.
    """
    value = attrs.get(name)
    if not isinstance(value, int) or value < 1:
        given = "is missing" if value is None else f"is {value!r}"
        raise ValueError(f"attribute {name} {given}, and has to be an integer above zero")
    return value


def _whole(node: onnx.NodeProto, zeros: np.ndarray) -> np.ndarray:
    """Zero points that are floats, as bytes.

    Raises:
        UnsupportedError: one is no integer of 8 bits.
    """
    found = np.clip(zeros, 0, 255).astype(np.uint8)
    if not np.array_equal(found, zeros):
        raise UnsupportedError(
            "its zero points are not integers, which DequantizeLinear needs",
            where=f"node {describe_node(node)}",
            hint="quantize the model with an algorithm whose zero points are, such as round to "
            "nearest",
        )
    return found


def _unpacked(held: np.ndarray, bits: int, rows: int, count: int) -> np.ndarray:
    """Rows of so many elements of some bits, as bytes; a row begins with a byte."""
    whole = held.reshape(rows, -(-count * bits // 8))
    if bits == 4:
        whole = np.stack([whole & 15, whole >> 4], -1).reshape(rows, -1)
    return whole[:, :count]
