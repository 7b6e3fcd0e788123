"""An ONNX file is below 2 GB: a model that is larger has its weights in a file beside it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import onnx
from google.protobuf.message import EncodeError

from odtc.core.disk.files import atomic_write
from odtc.core.disk.pairs import atomic_pair

# What protobuf writes at most.
LARGEST = (1 << 31) - (1 << 20)
# Behind the name of the model.
BESIDE = ".data"
# Bytes of the smallest tensor beside: shapes and the like stay inside, where readers look for them.
LEAST = 1024


@contextmanager
def new_model_file(model: onnx.ModelProto, path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yields where a model has been written; it replaces `path` when the block ends well.

    Args:
        model: what is above 2 GB has its weights in a file called `BESIDE`, and places of them in
            the message from then on.
        path: of the new file.

    Raises:
        OutputError: the folder does not exist or is not writable, or the disk is full.
    """
    if (inside := _encoded(model)) is not None:
        with atomic_write(path) as temporary:
            temporary.write_bytes(inside)
            yield temporary
        return
    with atomic_pair(path, BESIDE) as temporary:
        onnx.save_model(
            model,
            temporary,
            save_as_external_data=True,
            location=temporary.name + BESIDE,
            size_threshold=LEAST,
        )
        yield temporary


def is_beside(model: onnx.ModelProto) -> bool:
    """Whether weights of a model that was written lie beside it."""
    return any(each.data_location == each.EXTERNAL for each in model.graph.initializer)


def said_of(path: str | os.PathLike[str]) -> str:
    """What to tell of a model that is above 2 GB."""
    name = os.path.basename(path)
    return f"the weights are in {name}{BESIDE}, as an ONNX file holds less than 2 GB: keep both"


def _encoded(model: onnx.ModelProto) -> bytes | None:
    """The bytes of a file; None of one that would be too large."""
    try:
        encoded = model.SerializeToString()
    except EncodeError:
        return None
    return encoded if len(encoded) <= LARGEST else None
