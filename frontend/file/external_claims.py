"""Checks the claims of tensors with external data, before any of that data is read.

A file of a terabyte of holes takes no room on a disk; read, it takes a terabyte of memory. So a
tensor gets no more than its shape needs, and its shape has the bound of all tensors.
"""

import math
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import onnx
from onnx import TensorProto, helper

from odtc.core.errors import ModelError
from odtc.core.onnx_model.weight_places import bodies_of
from odtc.frontend.graph import MAX_ELEMENTS

_HINT = "export the model again, and check that all of its files were copied whole"


def require_claims(model: onnx.ModelProto, path: Path) -> None:
    """Checks the tensors of a model whose data lie in other files.

    Args:
        model: without these data.
        path: of its file. Tensors that were left in that have what lies there.

    Raises:
        ModelError: one claims more elements than odtc takes, or more bytes than its shape needs.
    """
    for tensor in external_tensors(model):
        if not _is_left_in(tensor, path):
            _check(tensor, path.parent)


def external_tensors(model: onnx.ModelProto) -> Iterator[TensorProto]:
    """All tensors of a model that say of their data where these lie."""
    for tensor in (*_tensors(model.graph), *_held(f.node for f in model.functions)):
        if tensor.data_location == TensorProto.EXTERNAL:
            yield tensor


def _is_left_in(tensor: TensorProto, path: Path) -> bool:
    """Whether its data are in the model's file, all of them."""
    where = {entry.key: entry.value for entry in tensor.external_data}
    size = _claimed(tensor, path.parent)
    is_there = where.get("location") == os.fspath(path)
    return is_there and size is not None and size <= os.path.getsize(path)


def _check(tensor: TensorProto, folder: Path) -> None:
    dims = list(tensor.dims)
    if min(dims, default=0) < 0 or math.prod(dims) > MAX_ELEMENTS:
        raise ModelError(
            f"a tensor has the shape {dims}; sizes are positive, and odtc takes at most "
            f"{MAX_ELEMENTS} elements",
            where=f"initializer {tensor.name}",
            hint=_HINT,
        )
    needed, size = _needed(tensor), _claimed(tensor, folder)
    if needed is not None and size is not None and size > needed:
        raise ModelError(
            f"a tensor of the shape {dims} needs {needed} bytes of external data; {size} are given",
            where=f"initializer {tensor.name}",
            hint=_HINT,
        )


def _needed(tensor: TensorProto) -> int | None:
    """Bytes of its elements, at least one for each; None where its type has no such size."""
    try:
        width = helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
    except (KeyError, TypeError, ValueError):
        return None
    return math.prod(tensor.dims) * width


def _claimed(tensor: TensorProto, folder: Path) -> int | None:
    """Bytes that would be read; None where that fails, and whoever reads says why."""
    where = {entry.key: entry.value for entry in tensor.external_data}
    try:
        if "length" in where:
            return int(where["length"])
        return os.path.getsize(folder / where["location"]) - int(where.get("offset", 0))
    except (KeyError, OSError, TypeError, ValueError):
        return None


def _tensors(graph: onnx.GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _held([graph.node])


def _held(parts: Iterable[Iterable[onnx.NodeProto]]) -> Iterator[TensorProto]:
    """The tensors in the attributes of nodes, and in their bodies."""
    for nodes in parts:
        for node in nodes:
            for item in node.attribute:
                if item.HasField("t"):
                    yield item.t
                yield from item.tensors
                if item.HasField("sparse_tensor"):
                    yield from (item.sparse_tensor.values, item.sparse_tensor.indices)
            for body in bodies_of(node):
                yield from _tensors(body)
