"""Weights in and out of ONNX graphs and safetensors files, one tensor at a time."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper
from safetensors import safe_open

from odtc.core.errors import NumericError
from odtc.core.onnx_model.weight_places import float_tensors

# Bytes of a part, at most, but for long rows. The C library keeps what was freed of larger ones.
_PART = 1 << 18
_DATA_FIELDS = (
    *("raw_data", "float_data", "int32_data", "double_data"),
    *("external_data", "data_location"),
)


def read_tensors(path: Path) -> Iterator[tuple[str, Callable[[], Iterator[np.ndarray]]]]:
    """Yields each tensor's name, and what reads its elements, in small flat parts.

    The file is mapped anew for each part: pages of a mapping stay resident for as long as it lasts.
    """
    with safe_open(path, framework="numpy") as file:
        names = list(file.keys())
    for name in names:
        yield name, partial(_parts, path, name)


def constant_parts(shape: tuple[int, ...], dtype: str, value: float) -> Iterator[np.ndarray]:
    """The elements of a constant tensor, in small flat parts."""
    left, most = math.prod(shape), max(1, _PART // np.dtype(dtype).itemsize)
    while left:
        yield np.full(min(left, most), value, dtype)
        left -= min(left, most)


def _parts(path: Path, name: str) -> Iterator[np.ndarray]:
    with safe_open(path, framework="numpy") as file:
        shape = file.get_slice(name).get_shape()
    rows, size = (shape[0], math.prod(shape[1:])) if shape else (0, 1)
    # Elements of more than eight bytes are no weights.
    step = max(1, _PART // max(1, 8 * size))
    for first in range(0, rows, step):
        with safe_open(path, framework="numpy") as file:
            yield file.get_slice(name)[first : min(first + step, rows)].reshape(-1)
    if not shape:
        with safe_open(path, framework="numpy") as file:
            yield file.get_tensor(name).reshape(-1)


def strip_weights(model: onnx.ModelProto, names: Iterable[str]) -> onnx.ModelProto:
    """Takes the data from these weights, in place; name, shape and dtype stay.

    The data of float64 stay, too: a trained float32 has less digits than these.
    """
    wanted = set(names)
    for name, tensor in float_tensors(model.graph):
        if name in wanted and tensor.data_type != onnx.TensorProto.DOUBLE:
            _clear(tensor)
    return model


def fill_weights(model: onnx.ModelProto, weights: Mapping[str, np.ndarray]) -> None:
    """Gives data to the weights of those names, in place, each in the file's own type.

    Args:
        model: what `strip_weights` left.
        weights: float32 arrays by name; names that the model does not have are passed over.

    Raises:
        NumericError: a value is beyond the range of the file's type.
    """
    for name, tensor in float_tensors(model.graph):
        if name in weights:
            value = _in_type_of(tensor, name, weights[name])
            _clear(tensor)
            tensor.raw_data = value.tobytes()


def _clear(tensor: onnx.TensorProto) -> None:
    for name in _DATA_FIELDS:
        tensor.ClearField(name)


def _in_type_of(tensor: onnx.TensorProto, name: str, value: np.ndarray) -> np.ndarray:
    """The value in the element type of the file's tensor.

    In float64, what training did not change keeps all of the digits that it has in the file.
    """
    if tensor.data_type == onnx.TensorProto.DOUBLE:
        before = numpy_helper.to_array(tensor)
        return np.where(value == before.astype(np.float32), before, value)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
    with np.errstate(over="ignore"):
        result = value.astype(dtype, copy=False)
    if dtype.itemsize < value.itemsize and np.isinf(result).any() and not np.isinf(value).any():
        raise NumericError(
            f"the largest element is {np.abs(value).max():g}, which {dtype.name} cannot hold",
            where=f"weight {name}",
            hint="train with a lower learning rate or weight decay, or export float32 weights",
        )
    return result
