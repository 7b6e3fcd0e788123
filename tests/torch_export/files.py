"""What `odtc.from_torch` writes, as tests look at it."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from torch import nn

import odtc
from odtc.core.onnx_model.weight_list import WeightList, read_weight_list


def written(
    module: nn.Module, example: Any, folder: Path, **options: Any
) -> tuple[onnx.ModelProto, WeightList]:
    """The file of a module, and its list of weights."""
    path = folder / "model.onnx"
    exported = odtc.from_torch(module, example, path, **options)
    assert not [note for note in exported.notes if "gradient is stopped" in note]
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    weights = read_weight_list(model)
    assert weights is not None
    return model, weights


def values_of(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]
