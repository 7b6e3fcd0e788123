"""Weights that an artifact leaves in files of its user: those of the model that it was compiled of.

The metadata of parameters.safetensors say of each where it is:

    "beside:NAME": "SHA256 OFFSET FILE"

with the name of the file in the folder of the artifact, or in another one that the user gives. All
bytes are compared with their hash before a trainer reads them, which takes a second for some 700
megabytes; a process does it again only for a file that has changed since.
"""

import errno
import hashlib
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath
from typing import BinaryIO

import numpy as np

from odtc.core.artifact.bundle import Bundle
from odtc.core.disk.package_files import COARSE_NS
from odtc.core.disk.tensor_file import read_header
from odtc.core.errors import ArtifactError
from odtc.core.specs import WEIGHT_ROLES, TensorSpec

_KEY = "beside:"
_PLACE = re.compile("[0-9a-f]{64} [0-9]{1,18} ([^\0]+)")
# What is read at a time.
_BLOCK = 1 << 20
_AT_ONCE = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


@dataclass(frozen=True)
class Beside:
    """A weight that lies in a file of the user's.

    Attributes:
        name: of the argument that starts from it.
        sha256: of its bytes, in hex.
        offset: where these begin.
        file: path of the file, from the folder of the model.
    """

    name: str
    sha256: str
    offset: int
    file: str


def metadata_of(weights: Iterable[Beside]) -> dict[str, str]:
    """What the file of an artifact's own weights says of those beside it."""
    return {f"{_KEY}{each.name}": f"{each.sha256} {each.offset} {each.file}" for each in weights}


def beside_of(bundle: Bundle) -> list[Beside]:
    """The weights of an artifact that are not in it.

    Raises:
        ArtifactError: one is no weight of the step, or its place none in a folder.
    """
    with bundle.parameters.open("rb") as file:
        metadata = read_header(file).metadata
    specs = _specs(bundle)
    found = [
        (key.removeprefix(_KEY), text) for key, text in metadata.items() if key.startswith(_KEY)
    ]
    for name, text in found:
        if name not in specs or not _is_place(text):
            raise ArtifactError(
                f"the artifact says of the weight {name!r} that it is at {text[:200]!r}, which is "
                "no place in a folder",
                hint="compile the model again",
            )
    return [_read(name, text) for name, text in found]


def files_beside(bundle: Bundle) -> dict[str, int]:
    """The files that an artifact needs beside it, each with how many bytes of it are weights."""
    sizes: dict[str, int] = {}
    specs = _specs(bundle)
    for each in beside_of(bundle):
        sizes[each.file] = sizes.get(each.file, 0) + specs[each.name].nbytes
    return sizes


def check_beside(bundle: Bundle) -> None:
    """Compares all weights that are not in an artifact with their hashes.

    Raises:
        ArtifactError: a file is missing, or has other bytes.
    """
    for name in files_beside(bundle):
        check_file(bundle, name)


def check_file(bundle: Bundle, name: str) -> None:
    """The same of the weights that are in one file."""
    specs = _specs(bundle)
    weights = [each for each in beside_of(bundle) if each.file == name]
    places = tuple((each.offset, specs[each.name].nbytes, each.sha256) for each in weights)
    latest = time.time_ns() - COARSE_NS
    with _opened(bundle, name) as file:
        known = (*_said_of(file), places)
        if known in _CHECKED:
            return
        for each, (offset, size, sha256) in zip(weights, places, strict=True):
            if _hash(file, offset, size) != sha256:
                raise _changed(bundle, name, each.name)
        # Not what was written while it was read, or so shortly before that no time shows it.
        said = _said_of(file)
        if (*said, places) == known and said[-1] <= latest:
            _CHECKED.add(known)


def hashes_beside(bundle: Bundle) -> dict[str, str]:
    """The sha256 of each file that an artifact needs beside it.

    Raises:
        ArtifactError: one cannot be read.
    """
    return {name: _file_hash(bundle, name) for name in sorted(files_beside(bundle))}


def _file_hash(bundle: Bundle, name: str) -> str:
    with _opened(bundle, name) as file:
        return _hash(file, 0, os.fstat(file.fileno()).st_size)


def read_beside(bundle: Bundle) -> Iterator[tuple[str, Callable[[], Iterator[np.ndarray]]]]:
    """Yields the name of each weight that is not in an artifact, and what reads its elements.

    Raises:
        ArtifactError: as of `check_beside`.
    """
    check_beside(bundle)
    specs = _specs(bundle)
    for each in beside_of(bundle):
        yield each.name, partial(_parts, bundle, each, specs[each.name])


def array_beside(bundle: Bundle, name: str) -> np.ndarray | None:
    """A weight that is not in an artifact; None where it is, or there is none of that name."""
    found = next((parts for each, parts in read_beside(bundle) if each == name), None)
    return None if found is None else np.concatenate([*found()]).reshape(_specs(bundle)[name].shape)


# Files whose weights had their hashes: what the system says of each, and the places.
_CHECKED: set[tuple[object, ...]] = set()


def _specs(bundle: Bundle) -> Mapping[str, TensorSpec]:
    return {item.spec.name: item.spec for item in bundle.manifest.of_role(*WEIGHT_ROLES)}


def _is_place(text: str) -> bool:
    """Whether it is a hash, an offset, and a path that stays in its folder."""
    match = _PLACE.fullmatch(text)
    if not match:
        return False
    path = PurePath(match[1])
    return not path.is_absolute() and ".." not in path.parts


def _read(name: str, text: str) -> Beside:
    sha256, offset, file = text.split(" ", 2)
    return Beside(name, sha256, int(offset), file)


def leads_out(folder: str | os.PathLike[str], name: str) -> bool:
    """Whether a file of a folder lies elsewhere, through a link."""
    own = os.path.realpath(folder)
    return not Path(os.path.realpath(os.path.join(folder, name))).is_relative_to(own)


def _opened(bundle: Bundle, name: str) -> BinaryIO:
    if leads_out(bundle.folder, name):
        raise ArtifactError(
            f"weights of the step are in {name}, which is a link that leads out of the folder",
            where=os.fspath(bundle.folder / name),
            hint="copy the file itself there, with cp -L",
        )
    try:
        # A pipe would be waited for.
        file = os.fdopen(os.open(bundle.folder / name, os.O_RDONLY | _AT_ONCE), "rb")
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            file.close()
            raise OSError(errno.EINVAL, "it is not a file")
        return file
    except OSError as error:
        raise ArtifactError(
            f"weights of the step are in {name}, which cannot be read: {error.strerror or error}",
            where=os.fspath(bundle.folder / name),
            hint="put it next to the artifact, or name the folder that it is in: "
            "odtc.load(path, weights=FOLDER), --weights-folder DIR",
        ) from error


def _changed(bundle: Bundle, name: str, weight: str) -> ArtifactError:
    return ArtifactError(
        f"{name} has another weight {weight!r} than when the step was compiled",
        where=os.fspath(bundle.folder / name),
        hint="bring back the file that it was compiled with, or compile the model again",
    )


def _said_of(file: BinaryIO) -> tuple[int, ...]:
    said = os.fstat(file.fileno())
    return said.st_dev, said.st_ino, said.st_size, said.st_mtime_ns, said.st_ctime_ns


def _hash(file: BinaryIO, offset: int, size: int) -> str:
    """The hash of a piece; none where the file ends before."""
    if os.fstat(file.fileno()).st_size < offset + size:
        return ""
    file.seek(offset)
    found = hashlib.sha256()
    while size and (block := file.read(min(_BLOCK, size))):
        found.update(block)
        size -= len(block)
    return found.hexdigest()


def _parts(bundle: Bundle, weight: Beside, spec: TensorSpec) -> Iterator[np.ndarray]:
    """Its elements, in flat parts."""
    dtype, left = np.dtype(spec.dtype), spec.nbytes
    with _opened(bundle, weight.file) as file:
        file.seek(weight.offset)
        while left:
            part = file.read(min(_BLOCK, left))
            if not part:
                raise _changed(bundle, weight.file, weight.name)
            yield np.frombuffer(part, dtype)
            left -= len(part)
