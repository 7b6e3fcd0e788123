"""Tensors of a model's file whose bytes are those of an argument of its step: they are kept once.

Codes lie in a file as a step keeps them, or nearly so: signed ones of four bits are moved by eight
there, so that none is below zero, which turns the highest bit of each over.
"""

import hashlib
from collections.abc import Mapping

import numpy as np
import onnx
from safetensors import safe_open

from odtc.core.artifact.beside import array_beside
from odtc.core.artifact.bundle import Bundle
from odtc.core.coded import Shared

# The highest bits of both codes in a byte.
_HIGHEST = np.uint8(0x88)


def take_out(model: onnx.ModelProto, arguments: Mapping[str, np.ndarray]) -> Mapping[str, Shared]:
    """Takes the data from tensors whose bytes an argument has, in place; shape and dtype stay.

    Args:
        model: of the step.
        arguments: by name.

    Returns:
        By the name of each such tensor, where its bytes are.
    """
    known = {_digest(value): name for name, value in arguments.items()}
    found = {}
    for tensor in model.graph.initializer:
        raw = np.frombuffer(tensor.raw_data, np.uint8)
        is_turned = tensor.data_type == onnx.TensorProto.INT4
        argument = known.get(_digest(raw ^ _HIGHEST if is_turned else raw))
        if argument is not None:
            found[tensor.name] = Shared(argument, is_turned)
            tensor.ClearField("raw_data")
    return found


def model_in(bundle: Bundle) -> onnx.ModelProto:
    """The model of an artifact, as it was compiled but for the data of its parameters.

    Raises:
        ArtifactError: weights that it leaves in a file are not there, or are others.
    """
    model = onnx.load(bundle.model, load_external_data=False)
    shared = bundle.manifest.shared
    with safe_open(bundle.parameters, framework="numpy") as file:
        for tensor in model.graph.initializer:
            if tensor.name in shared:
                place = shared[tensor.name]
                beside = array_beside(bundle, place.argument)
                value = file.get_tensor(place.argument) if beside is None else beside
                raw = value.view(np.uint8)
                tensor.raw_data = (raw ^ _HIGHEST if place.is_turned else raw).tobytes()
    return model


def _digest(value: np.ndarray) -> bytes:
    return hashlib.sha256(np.ascontiguousarray(value).view(np.uint8).data).digest()
