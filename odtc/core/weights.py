"""Weights in and out of ONNX graphs and safetensors files, one tensor at a time."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

_DATA_FIELDS = ("raw_data", "float_data", "external_data", "data_location")


_OS_ERROR = re.compile(r"(?P<text>[^:]*) \(os error (?P<code>\d+)\)")


def write_tensors(
    path: Path, tensors: Mapping[str, np.ndarray], metadata: dict[str, str] | None = None
) -> None:
    """Writes tensors to a safetensors file.

    Raises:
        OSError: the system could not write it; safetensors has an error of its own for that.
    """
    try:
        save_file(dict(tensors), path, metadata)
    except SafetensorError as error:
        match = _OS_ERROR.search(str(error))
        if match is None:
            raise
        raise OSError(int(match["code"]), match["text"].strip(), str(path)) from error


def read_tensors(path: Path) -> Iterator[tuple[str, np.ndarray]]:
    """Yields name and value of each tensor; only one is in memory at a time.

    The file is mapped anew for each: pages of a mapping stay resident for as long as it lasts.
    """
    with safe_open(path, framework="numpy") as file:
        names = list(file.keys())
    for name in names:
        with safe_open(path, framework="numpy") as file:
            value = file.get_tensor(name)
        yield name, value


def strip_weights(model: onnx.ModelProto, names: Iterable[str]) -> onnx.ModelProto:
    """Takes the data from these initializers, in place; name, shape and dtype stay."""
    wanted = set(names)
    for tensor in model.graph.initializer:
        if tensor.name in wanted:
            for name in _DATA_FIELDS:
                tensor.ClearField(name)
    return model


def fill_weights(model: onnx.ModelProto, weights: dict[str, np.ndarray]) -> None:
    """Gives data to the initializers of those names, in place."""
    for tensor in strip_weights(model, weights).graph.initializer:
        if tensor.name in weights:
            tensor.raw_data = np.ascontiguousarray(weights[tensor.name], np.float32).tobytes()
