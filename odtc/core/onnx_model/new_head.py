"""The parameters of a head that was put on a model: new, so that all training has to train them.

The file has their names as the JSON text of the metadata key `odtc.head`, until the model is
trained and exported.
"""

import json
from collections.abc import Sequence

import onnx

from odtc.core.errors import ModelError

KEY = "odtc.head"


def write_new_head(model: onnx.ModelProto, names: Sequence[str]) -> None:
    """Puts the names into the model's metadata, in the place of those that are there."""
    others = [item for item in model.metadata_props if item.key != KEY]
    del model.metadata_props[:]
    model.metadata_props.extend(others)
    if names:
        model.metadata_props.add(key=KEY, value=json.dumps(list(names)))


def read_new_head(model: onnx.ModelProto) -> tuple[str, ...]:
    """The names in the model's metadata; none where there is no new head.

    Raises:
        ModelError: they are malformed.
    """
    text = next((item.value for item in model.metadata_props if item.key == KEY), "[]")
    try:
        names = json.loads(text)
    except (ValueError, RecursionError):
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ModelError(
            "the names of the new head's parameters are damaged",
            where=f"metadata {KEY}",
            hint="put the head on the model again: odtc adapt",
        )
    return tuple(names)
