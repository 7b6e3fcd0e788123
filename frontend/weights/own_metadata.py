"""Reads the list of parameters and buffers that odtc's own export leaves in a file.

odtc.weights = {"parameters": ["fc.weight"], "buffers": ["mean"]}
"""

import json

import onnx

from odtc.core.errors import ModelError
from odtc.frontend.weights.finding import Kind

KEY = "odtc.weights"
_LISTS = {"parameters": Kind.PARAMETER, "buffers": Kind.BUFFER}


def read_own_metadata(model: onnx.ModelProto) -> dict[str, Kind] | None:
    """Kinds by the names of a file's tensors; None where the file has no such list.

    Raises:
        ModelError: the list is malformed.
    """
    text = next((pair.value for pair in model.metadata_props if pair.key == KEY), None)
    if text is None:
        return None
    try:
        lists = json.loads(text)
        if not all(isinstance(lists[key], list) for key in _LISTS):
            raise TypeError("parameters and buffers are lists")
        kinds = {name: kind for key, kind in _LISTS.items() for name in lists[key]}
        if not all(isinstance(name, str) for name in kinds):
            raise TypeError("a name is no text")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ModelError(
            f"the list of parameters and buffers is damaged: {type(error).__name__}: {error}",
            where=f"metadata {KEY}",
            hint="export the model again",
        ) from error
    return kinds
