"""The names of classes in the metadata of an ONNX file."""

import json
import os
from collections.abc import Sequence

import onnx

CLASS_NAMES = "class_names"
"""The key of a file's metadata that has the names of the classes, as a list in JSON."""


def write_class_names(model: onnx.ModelProto, names: Sequence[str]) -> None:
    """Gives a model the names of its classes; none change nothing of it."""
    if names:
        kept = {pair.key: pair.value for pair in model.metadata_props}
        onnx.helper.set_model_props(model, kept | {CLASS_NAMES: json.dumps([*names])})


def class_names_in(path: str | os.PathLike[str]) -> list[str]:
    """The names that a file has; none where it has none, or where they are no list of texts."""
    model = onnx.load(path, load_external_data=False)
    found = {pair.key: pair.value for pair in model.metadata_props}.get(CLASS_NAMES, "[]")
    try:
        names = json.loads(found)
    except ValueError:
        return []
    return names if isinstance(names, list) and all(isinstance(n, str) for n in names) else []
