"""Matrices that a file holds as integers become arguments of the step, as rounded ones are.

    DequantizeLinear of constants  →  a parameter that is kept as codes

A constant would be in the library, in the program of the native runtime and in the model's file;
an argument is in the artifact once. While the graph is normalised the matrix is what it stands for,
a parameter of floats; then codes of 4 or 8 bits take its place.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx

from odtc.core.coded import AS_IT_IS, NIBBLES, SHIFT, Coded, packed
from odtc.core.disk.mapped_arrays import leave_pages
from odtc.core.specs import free_name
from odtc.frontend.graph import Graph, attributes, names_read

_MATRIX = 2
_INTEGERS = ("int8", "uint8")
_FLOAT = onnx.TensorProto.FLOAT


@dataclass(frozen=True)
class StoredCodes:
    """A matrix of a file, as the step keeps it.

    Attributes:
        codes: of 8 bits, or two of 4 bits in a byte.
        stored: which of these.
        scale, zero: with two dimensions; no zero point where it is zero.
        shape: of the matrix.
        blocks: for each dimension, how many elements in a row have one scale and zero point.
    """

    codes: np.ndarray
    stored: str
    scale: np.ndarray
    zero: np.ndarray | None
    shape: tuple[int, int]
    blocks: tuple[int, int]


# What was read of a model, by the name of the integers, once for all drafts of it.
Kept = dict[str, StoredCodes]


def set_codes_apart(graph: Graph, kept: Kept) -> None:
    """Puts parameters of floats, which have no values yet, in the place of matrices, in place.

    Args:
        graph: not yet normalised, with its adapters.
        kept: what was read before, of the same model; is added to.
    """
    names: dict[str, str] = {}
    for name, nodes in _dequantised(graph).items():
        found = kept.get(name) or _read(graph, nodes[0])
        if found is None:
            continue
        kept[name] = found
        del graph.constants[name]
        graph.parameters[name] = np.broadcast_to(np.float32(0), found.shape)
        graph.shapes[name], graph.dtypes[name] = found.shape, "float32"
        names |= {node.output[0]: name for node in nodes}
    graph.nodes = [node for node in graph.nodes if node.output[0] not in names]
    for node in graph.nodes:
        for slot, given in enumerate(node.input):
            node.input[slot] = names.get(given, given)


def put_codes(graph: Graph, kept: Mapping[str, StoredCodes]) -> None:
    """Puts codes, scales and zero points in the place of such parameters, in place.

    Args:
        graph: normalised.
        kept: what `set_codes_apart` read.
    """
    taken = {*graph.shapes, *graph.parameters, *graph.constants}
    for name in [each for each in graph.parameters if each in kept]:
        found = kept[name]
        scale, zero = free_name(f"{name}.scale", taken), free_name(f"{name}.zero", taken)
        tensors = {name: found.codes, scale: found.scale}
        if found.zero is not None:
            tensors[zero] = found.zero
        taken |= tensors.keys()
        graph.parameters |= tensors
        graph.coded[name] = Coded(
            *(name, found.stored, found.shape, found.blocks, scale),
            zero if zero in tensors else "",
            in_file=True,
        )


def _dequantised(graph: Graph) -> dict[str, list[onnx.NodeProto]]:
    """Matrices of integers that are dequantised, and in one way only, with the nodes that do it."""
    readers = defaultdict[str, list[onnx.NodeProto]](list)
    for node in graph.nodes:
        for name in names_read(node):
            readers[name].append(node)

    def is_plain(name: str) -> bool:
        """Whether nodes of the graph itself read a tensor, and nothing else."""
        inner = any(name not in node.input for node in readers[name])
        return name in readers and not inner and name not in graph.outputs

    found = {}
    for name, value in graph.constants.items():
        nodes = readers.get(name, [])
        if value.ndim != _MATRIX or value.dtype.name not in _INTEGERS or not is_plain(name):
            continue
        ways = {_way(node) for node in nodes}
        if len(ways) == 1 and "" not in ways and all(is_plain(node.output[0]) for node in nodes):
            found[name] = nodes
    return found


def _way(node: onnx.NodeProto) -> str:
    """How a node dequantises; empty for any other node."""
    if node.op_type != "DequantizeLinear":
        return ""
    return f"{[*node.input]} {sorted(attributes(node).items())}"


def _read(graph: Graph, node: onnx.NodeProto) -> StoredCodes | None:
    """What a node dequantises; None where that is no constant, or what it gives no float32."""
    names = [name for name in node.input if name]
    if any(name not in graph.constants for name in names):
        return None
    codes, scale, *zeros = (graph.constants[name] for name in names)
    attrs = attributes(node)
    if scale.dtype != np.float32:
        return None
    if attrs.get("output_dtype", _FLOAT) != _FLOAT or any(map(_is_wide, zeros)):
        return None
    axis = attrs.get("axis", 1) % _MATRIX
    blocks = [1, 1]
    if scale.ndim == _MATRIX:
        blocks[axis] = attrs.get("block_size", 1) or 1
    zero = _as_matrix(zeros[0], axis) if zeros and zeros[0].any() else None
    nibbles = packed(codes)
    leave_pages([codes])
    if nibbles is not None and codes.dtype == np.int8:
        zero = _moved(zero)
    return StoredCodes(
        codes if nibbles is None else nibbles,
        AS_IT_IS if nibbles is None else NIBBLES,
        _as_matrix(scale, axis),
        zero,
        (int(codes.shape[0]), int(codes.shape[1])),
        (blocks[0], blocks[1]),
    )


def _is_wide(zero: np.ndarray) -> bool:
    return zero.dtype.name not in _INTEGERS


def _as_matrix(numbers: np.ndarray, axis: int) -> np.ndarray:
    """Scales or zero points with two dimensions."""
    if numbers.ndim == _MATRIX:
        return numbers
    return numbers.reshape((-1, 1) if axis == 0 else (1, -1))


def _moved(zero: np.ndarray | None) -> np.ndarray:
    """Zero points of codes that were moved, so that none is below zero."""
    if zero is None:
        return np.full((1, 1), SHIFT, np.uint8)
    # Below -8 there is a number for nothing that four bits hold, but a file may have it.
    moved = zero.astype(np.int16) + SHIFT
    return moved.astype(np.uint8 if moved.min() >= 0 else np.float32)
