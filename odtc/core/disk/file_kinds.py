"""Tells by its first bytes what a file is that was given in the place of another.

Who gives a checkpoint of PyTorch for a model, or a model for a checkpoint, is told what it is and
what to do with it, rather than which byte of it is wrong.
"""

import os
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from odtc.core.artifact.archive import small_directory
from odtc.core.disk.file_limits import MOST_ARRAYS_BYTES
from odtc.core.errors import OdtcError
from odtc.core.printable import with_article

_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_LONGEST_MAGIC = 16


@dataclass(frozen=True)
class FileKind:
    """A kind of files.

    Attributes:
        what: it is.
        hint: what to do with it.
        begins: whether a file with such first bytes is of the kind.
        holds: whether a zip file with such names is.
        serves: as what such a file may be wanted.
    """

    what: str
    hint: str
    begins: Callable[[bytes], bool] = lambda _: False
    holds: Callable[[Iterable[str]], bool] = lambda _: False
    serves: str = ""


def _has(ending: str) -> Callable[[Iterable[str]], bool]:
    return lambda names: any(name.endswith(ending) for name in names)


_CONVERT = "convert it to ONNX first, such as by tf2onnx"
_EXPORT = "export the module: odtc export FILE.py:make -o MODEL.onnx, or odtc.from_torch"

_KINDS = (
    FileKind(
        "an artifact of odtc",
        "train it: odtc train ARTIFACT --data DATA.npz --lr LR, or odtc.load",
        holds=lambda names: "manifest.json" in names,
        serves="artifact of odtc",
    ),
    FileKind(
        "a file of arrays",
        "it is data: give it as --data",
        holds=_has(".npy"),
        serves="file of arrays",
    ),
    FileKind("a file of torch.save", _EXPORT, holds=_has("data.pkl")),
    FileKind("a model of Keras", _CONVERT, holds=_has("model.weights.h5")),
    FileKind("a file of torch.save", _EXPORT, begins=lambda head: head[:1] == b"\x80"),
    FileKind("an HDF5 file, as of Keras", _CONVERT, begins=lambda head: head[:4] == b"\x89HDF"),
    FileKind("a model of TensorFlow Lite", _CONVERT, begins=lambda head: head[4:8] == b"TFL3"),
    FileKind(
        "a file of tensors alone (safetensors)",
        "if it is a checkpoint, give it as --checkpoint beside its artifact; weights go into the "
        "module that they are of, and that is exported; `odtc check --against` compares them with "
        "a model",
        begins=lambda head: head[8:10] == b'{"',
        serves="checkpoint",
    ),
)


# Nothing at its beginning shows a model.
_MODEL = FileKind(
    "an ONNX model", "compile it: odtc compile MODEL.onnx -o MODEL.odtc", serves="ONNX model"
)
_MODEL_ENDING = ".onnx"


def mistaken(path: str | os.PathLike[str], wanted: str, error: type[OdtcError]) -> OdtcError | None:
    """The error of a file that is another than was wanted; None where nothing shows what it is.

    Args:
        path: of a file that is not as it should be.
        wanted: what it should be, such as `ONNX model`.
        error: its class.
    """
    found = kind_of(path)
    if found is None and os.fspath(path).endswith(_MODEL_ENDING):
        found = _MODEL
    if found is None or found.serves == wanted:
        return None
    return error(
        f"it is {found.what}, not {with_article(wanted)}", where=str(path), hint=found.hint
    )


def kind_of(path: str | os.PathLike[str]) -> FileKind | None:
    """The kind of a file, by what it holds; None where that is not known, as of ONNX models."""
    try:
        with open(path, "rb") as file:
            head = file.read(_LONGEST_MAGIC)
        names = _names_in(path) if head.startswith(_ZIP) else []
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError):
        return None
    return next((kind for kind in _KINDS if kind.begins(head) or kind.holds(names)), None)


def _names_in(path: str | os.PathLike[str]) -> list[str]:
    with small_directory(path, MOST_ARRAYS_BYTES) as file, zipfile.ZipFile(file) as archive:
        return archive.namelist()
