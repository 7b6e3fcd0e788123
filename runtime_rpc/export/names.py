"""What the metadata of an ONNX file says of its classes and of the columns of its inputs."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import onnx

CLASS_NAMES = "class_names"
"""The key of a file's metadata that has the names of the classes, as a list in JSON."""
COLUMN_NAMES = "column_names"
"""The key that has the names of the columns of each input that was a table, in their order."""
CLASS_COUNTS = "class_counts"
"""The key that has how many classes each output tells apart; 2 where it is one logit."""
# No model has more, and a file may say anything.
_MOST_CLASSES = 1 << 31


def write_names(
    model: onnx.ModelProto,
    classes: Sequence[str],
    columns: Mapping[str, Sequence[str]],
    counts: Mapping[str, int],
) -> None:
    """Gives a model the names of its classes and columns; none change nothing of it.

    Args:
        model: that gets them.
        classes: names of these, by their numbers.
        columns: names of these, by input.
        counts: of classes, by output; what the model said of another training is taken out.
    """
    columns = {name: [*each] for name, each in columns.items()}
    given = {CLASS_NAMES: [*classes], COLUMN_NAMES: columns, CLASS_COUNTS: {**counts}}
    written = {key: json.dumps(value) for key, value in given.items() if value}
    found = {pair.key: pair.value for pair in model.metadata_props}
    kept = {key: value for key, value in found.items() if key != CLASS_COUNTS}
    if kept | written != found:
        onnx.helper.set_model_props(model, kept | written)


def class_names_in(model: onnx.ModelProto) -> list[str]:
    """The names of classes that a file has; none where it has none, or no list of texts."""
    return _texts(_said(model, CLASS_NAMES))


def column_names_in(model: onnx.ModelProto) -> dict[str, list[str]]:
    """The names of columns that a file has, by input; none where it has none."""
    found = _said(model, COLUMN_NAMES)
    named = {name: _texts(each) for name, each in found.items()} if isinstance(found, dict) else {}
    return {name: each for name, each in named.items() if each}


def class_counts_in(model: onnx.ModelProto) -> dict[str, int]:
    """How many classes each output tells apart, as a file says it; none where it does not."""
    found = _said(model, CLASS_COUNTS)
    counts = found.items() if isinstance(found, dict) else ()
    return {name: each for name, each in counts if type(each) is int and 0 < each < _MOST_CLASSES}


def _said(model: onnx.ModelProto, key: str) -> Any:
    text = next((pair.value for pair in model.metadata_props if pair.key == key), "null")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _texts(found: Any) -> list[str]:
    is_list = isinstance(found, list) and all(isinstance(each, str) for each in found)
    return found if is_list else []
