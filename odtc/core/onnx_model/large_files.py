"""An ONNX file is below 2 GB: a model that is larger has its weights in a file beside it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError, EncodeError

from odtc.core.disk.files import atomic_write
from odtc.core.disk.pairs import atomic_pair
from odtc.core.errors import OutputError

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
    with new_pair(path) as temporary:
        onnx.save_model(
            model,
            temporary,
            save_as_external_data=True,
            location=temporary.name + BESIDE,
            size_threshold=LEAST,
        )
        yield temporary


@contextmanager
def new_pair(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yields where a model above 2 GB and its weights go; both replace those of `path` at the end.

    Raises:
        OutputError: there are weights that may be another model's, or no file can be written.
    """
    final = Path(os.path.realpath(path))
    data = final.with_name(final.name + BESIDE)
    if data.is_file() and not _names(final, data.name):
        raise OutputError(
            f"the weights would replace {data}, which {final.name} does not name as its own: they "
            "may be those of a model that was renamed",
            where=os.fspath(path),
            hint="give the new model another name, or remove that file",
        )
    with atomic_pair(path, BESIDE) as temporary:
        yield temporary


def _names(path: Path, data: str) -> bool:
    """Whether there is a model at a path that has weights in a file of that name beside it."""
    try:
        graph = onnx.load(path, format="protobuf", load_external_data=False).graph
    except (DecodeError, OSError):
        return False
    return any(
        entry.key == "location" and entry.value == data
        for tensor in graph.initializer
        for entry in tensor.external_data
    )


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
