"""Matrices of an ONNX file in fewer bits than float32, with the nodes that make floats of them."""

from collections.abc import Callable, Mapping
from itertools import starmap

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

# Columns that have one scale.
BLOCK = 32
# DequantizeLinear takes blocks from this opset on.
OPSET = 21

# From codes of -7 to 7 and a scale for each block of a row: the tensors that stand for a matrix,
# the matrix first, and attributes of the node that makes floats of them.
Form = Callable[[np.ndarray, np.ndarray], tuple[list[np.ndarray], dict[str, int]]]


def whole(codes: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """The matrix of float32 that codes and scales mean."""
    return codes * np.repeat(scale, BLOCK, 1)


def _by_rows(codes: np.ndarray, scale: np.ndarray) -> tuple[list[np.ndarray], dict[str, int]]:
    value = whole(codes, scale)
    row = (np.abs(value).max(1) / 127).astype(np.float32)
    return [np.rint(value / row[:, None]).astype(np.int8), row], {"axis": 0}


FORMS: Mapping[str, Form] = {
    "float32": lambda codes, scale: ([whole(codes, scale)], {}),
    "float16": lambda codes, scale: (
        [whole(codes, scale).astype(np.float16)],
        {"to": TensorProto.FLOAT},
    ),
    "int8 by rows": _by_rows,
    # As large as codes of 8 bits are: those that fit 4 bits would be kept in 4.
    "int8 by blocks": lambda codes, scale: (
        [(codes * 16).astype(np.int8), scale / np.float32(16)],
        {"axis": 1, "block_size": BLOCK},
    ),
    "int4 by blocks": lambda codes, scale: (
        [codes.astype(ml_dtypes.int4), scale],
        {"axis": 1, "block_size": BLOCK},
    ),
}


def store(
    graph: onnx.GraphProto,
    form: Form,
    codes_of: Callable[[onnx.TensorProto], tuple[np.ndarray, np.ndarray]],
) -> None:
    """Stores all matrices of a graph called `*.weight` in a form.

    Args:
        graph: is changed; its opset has to be `OPSET`.
        form: one of `FORMS`.
        codes_of: gives the codes `[rows, columns]` of a matrix, and scales, one for `BLOCK` columns
    """
    floats: dict[str, str] = {}
    made: list[onnx.NodeProto] = []
    for tensor in [each for each in graph.initializer if _is_matrix(each)]:
        name = tensor.name
        (matrix, *others), attributes = form(*codes_of(tensor))
        tensor.CopyFrom(numpy_helper.from_array(matrix, name))
        if matrix.dtype == np.float32:
            continue
        names = [f"{name}_scale" for _ in others]
        graph.initializer.extend(map(numpy_helper.from_array, others, names))
        floats[name] = f"{name}_floats"
        kind = "DequantizeLinear" if others else "Cast"
        made.append(helper.make_node(kind, [name, *names], [floats[name]]))
        made[-1].attribute.extend(starmap(helper.make_attribute, attributes.items()))
    for node in graph.node:
        node.input[:] = [floats.get(each, each) for each in node.input]
    nodes = [*made, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)


def _is_matrix(tensor: onnx.TensorProto) -> bool:
    return tensor.name.endswith(".weight") and len(tensor.dims) == 2
