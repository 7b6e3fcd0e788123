"""`replace_head`: an ONNX model with a head for other classes, as a file."""

import json
import os
from pathlib import Path

import onnx

from odtc.core.errors import UsageError
from odtc.core.files import atomic_write
from odtc.frontend.heads.replace import Head, put_head
from odtc.frontend.onnx_file import check_model, load_model, modern

# What a file says of its weights: `odtc.from_torch` writes it, too.
WEIGHTS_KEY = "odtc.weights"


def replace_head(
    model: str | os.PathLike[str],
    classes: int,
    path: str | os.PathLike[str],
    *,
    output: str | None = None,
    at: str | None = None,
    seed: int = 0,
) -> Head:
    """Writes a model whose classifier is replaced by one for other classes.

    Args:
        model: path of the ONNX file.
        classes: how many scores the new head gives.
        path: of the new file; not that of the model.
        output: the output whose classifier is replaced; the first that has one by default.
        at: a tensor to cut at, with a pooling and a dense layer behind it.
        seed: of the new values.

    Returns:
        What was done.

    Raises:
        ModelError: the model cannot be read.
        UsageError: an argument does not fit the model.
        UnsupportedError: no classifier was found; `at` names where the head goes.
        OutputError: the file cannot be written.
    """
    if os.path.realpath(model) == os.path.realpath(path):
        raise UsageError("the new file would replace the model", where=str(path))
    changed = modern(load_model(model))
    head = put_head(changed, classes, output=output, at=at, seed=seed)
    _tell(changed, head)
    check_model(changed, str(path))
    with atomic_write(path) as temporary:
        Path(temporary).write_bytes(changed.SerializeToString())
    return head


def _tell(model: onnx.ModelProto, head: Head) -> None:
    """Keeps what the file says of its weights in step with its new head."""
    for entry in model.metadata_props:
        if entry.key == WEIGHTS_KEY:
            said = json.loads(entry.value)
            names = said.setdefault("parameters", [])
            said["parameters"] = names + [
                name for name in (head.weight, head.bias) if name and name not in names
            ]
            entry.value = json.dumps(said)
