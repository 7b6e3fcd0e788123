"""The artifact on disk: one zip file, and the private folder that it is unpacked to.

    manifest.json            what it is; hashes of the other members
    step.so                  the compiled library: `train_step` and `evaluate`
    parameters.safetensors   initial weights, by ONNX initializer name
    model.onnx               the original graph without those weights
    memory.json              where the tensors of the training step lie, and when, for each plan
    program.bin              the step as data, for a runtime without TVM; see docs/program.md. A
                             target's step has none where it cannot be written so

Members are stored, not compressed (`odtc.core.artifact.archive`), and the library has in it what
the manifest, the weights and the model are (`odtc.core.artifact.identity`). A library is always
loaded from a fresh private path: `dlopen` gives a stale module back for a path that it has seen,
and a user may compile over an artifact that is in use.
"""

import hashlib
import os
import shutil
import tempfile
import weakref
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from odtc.core.artifact.archive import NO_TIME, require_stored, small_directory
from odtc.core.artifact.identity import identity_of
from odtc.core.artifact.library_file import build_id
from odtc.core.artifact.manifest import Manifest
from odtc.core.artifact.parsing import parse_manifest
from odtc.core.disk.file_kinds import mistaken
from odtc.core.disk.file_limits import MOST_MANIFEST_BYTES, MOST_MEMBERS_BYTES, MOST_PLAN_BYTES
from odtc.core.disk.files import (
    atomic_write,
    check_the_path,
    disk_full,
    disk_is_full,
    not_a_file,
    private_folder,
)
from odtc.core.disk.left_behind import remove_folder
from odtc.core.errors import ArtifactError, UsageError

MANIFEST = "manifest.json"
LIBRARY = "step.so"
PARAMETERS = "parameters.safetensors"
MODEL = "model.onnx"
MEMORY = "memory.json"
PROGRAM = "program.bin"
MEMBERS = (LIBRARY, PARAMETERS, MODEL, MEMORY, PROGRAM)
# What an artifact may be without.
_OPTIONAL = frozenset({PROGRAM})
# What the library is bound to, beside the manifest.
BOUND = (PARAMETERS, MODEL)

_LIMITS = {
    MANIFEST: MOST_MANIFEST_BYTES,
    MEMORY: MOST_PLAN_BYTES,
    **dict.fromkeys((LIBRARY, PARAMETERS, MODEL, PROGRAM)),
}

# Where it lies in a program.
_IDENTITY_OFFSET, _IDENTITY_BYTES = 24, 32

_BLOCK = 1 << 20
# For whoever unpacks it by other means.
_READABLE = 0o644 << 16
# What zipfile raises, depending on which byte is wrong.
_UNREADABLE = (
    *(zipfile.BadZipFile, zlib.error),
    *(KeyError, EOFError, OSError, OverflowError, RuntimeError, ValueError),
)


@dataclass(frozen=True)
class Bundle:
    """An unpacked artifact.

    Attributes:
        manifest: what it is.
        root: a private folder with the members; it goes when the bundle does.
        folder: in which weights lie that the artifact leaves in a file of the model.
    """

    manifest: Manifest
    root: Path
    folder: Path

    def opened(self) -> Self:
        """The bundle, whose folder is there.

        Raises:
            UsageError: the artifact is closed.
        """
        if not self.root.exists():
            raise UsageError(
                "the artifact is closed, and its unpacked files are gone",
                hint="load it again: odtc.load; or do this within its `with` block",
            )
        return self

    @property
    def library(self) -> Path:
        """The compiled library."""
        return self.root / LIBRARY

    @property
    def parameters(self) -> Path:
        """The initial weights."""
        return self.root / PARAMETERS

    @property
    def model(self) -> Path:
        """The original graph, without weights."""
        return self.root / MODEL

    @property
    def memory(self) -> Path:
        """The memory plans of the training step."""
        return self.root / MEMORY

    @property
    def program(self) -> Path | None:
        """The step as data; None where there is none."""
        return self.root / PROGRAM if PROGRAM in self.manifest.files else None

    @property
    def members(self) -> tuple[str, ...]:
        """Names of the files that there are."""
        return members_of(self.manifest)


def members_of(manifest: Manifest) -> tuple[str, ...]:
    """Names of an artifact's files, beside its manifest."""
    return tuple(name for name in MEMBERS if name in manifest.files or name not in _OPTIONAL)


def identity_in(manifest: Manifest, root: Path) -> str:
    """The hash that the library of an artifact is bound to; the other members lie in the folder."""
    hashes = {name: file_sha256(root / name) for name in BOUND}
    return identity_of(replace(manifest, files=hashes), BOUND)


def build_id_of(identity: str, program: Path | None) -> str:
    """The build id of a library: so a program cannot be another one, and fits its kernels.

    Args:
        identity: of the artifact.
        program: which holds that identity, if there is one.
    """
    return identity if program is None else file_sha256(program)


def identity_in_program(program: Path) -> str:
    """The identity of the artifact that a program is of, in hex; see `docs/program.md`."""
    with program.open("rb") as file:
        file.seek(_IDENTITY_OFFSET)
        return file.read(_IDENTITY_BYTES).hex()


def seal(manifest: Manifest, root: Path, folder: Path) -> Bundle:
    """Makes a bundle of a private folder that holds all members, and hashes them.

    Args:
        manifest: without the hashes.
        root: the private folder.
        folder: of the model.
    """
    hashes = {
        name: file_sha256(root / name)
        for name in MEMBERS
        if name not in _OPTIONAL or (root / name).exists()
    }
    return owned(Bundle(replace(manifest, files=hashes), root, folder))


def save(bundle: Bundle, path: str | os.PathLike[str]) -> None:
    """Writes the artifact, whole or not at all, with the same bytes whenever that is.

    Raises:
        OutputError: the file cannot be written.
    """
    with atomic_write(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        archive.writestr(zipfile.ZipInfo(MANIFEST, NO_TIME), bundle.manifest.to_json())
        for name in bundle.members:
            # `archive.write` copies in blocks of 8 KiB, which takes longer than the rest.
            about = zipfile.ZipInfo(name, NO_TIME)
            about.external_attr = _READABLE
            about.file_size = (bundle.root / name).stat().st_size
            with open(bundle.root / name, "rb") as source, archive.open(about, "w") as target:
                shutil.copyfileobj(source, target, _BLOCK)


def load(
    path: str | os.PathLike[str],
    tvm_version: str | None,
    folder: str | os.PathLike[str] | None = None,
) -> Bundle:
    """Unpacks an artifact and checks its versions, the hash of every member, and that all fit.

    Args:
        path: of the artifact.
        tvm_version: of this TVM; None where there is none, which could load a library.
        folder: in which weights lie that are not in the artifact; None for that of the artifact.

    Raises:
        ArtifactError: it is missing, damaged, of another version, or made of several.
        OutputError: there is no room to unpack it.
    """
    where = str(path)
    if not os.path.isfile(path):
        raise ArtifactError(
            f"the artifact {not_a_file(path)}", where=where, hint=check_the_path(path)
        )
    if error := mistaken(path, "artifact of odtc", ArtifactError):
        raise error
    with (
        _readable(where),
        small_directory(path, MOST_MEMBERS_BYTES) as file,
        zipfile.ZipFile(file) as archive,
    ):
        file.opened()
        left_out = _OPTIONAL - {*archive.namelist()}
        limits = {name: most for name, most in _LIMITS.items() if name not in left_out}
        require_stored(archive, limits, os.path.getsize(path), where)
        manifest = parse_manifest(archive.read(MANIFEST), where)
        if tvm_version not in (None, manifest.tvm):
            raise ArtifactError(
                f"the artifact was compiled with TVM {manifest.tvm}; this is TVM {tvm_version}",
                where=where,
                hint="compile the model again with this version of odtc",
            )
        beside = Path(path).parent if folder is None else Path(folder)
        bundle = owned(Bundle(manifest, private_folder(), beside.absolute()))
        for name in bundle.members:
            with archive.open(name) as source, open(bundle.root / name, "wb") as target:
                shutil.copyfileobj(source, target, _BLOCK)
    for name in bundle.members:
        if file_sha256(bundle.root / name) != manifest.files.get(name):
            raise ArtifactError(
                f"the artifact is damaged: {name} does not match its recorded hash",
                where=where,
                hint="copy the artifact again, or compile the model again",
            )
    _check_library(bundle, where)
    return bundle


def _check_library(bundle: Bundle, where: str) -> None:
    """Checks that all of the library is there, and that it belongs to the other parts.

    Raises:
        ArtifactError: it is not so.
    """
    try:
        found = build_id(bundle.library)
    except ValueError as error:
        raise ArtifactError(
            f"the artifact is damaged: {LIBRARY} cannot be loaded: {error}",
            where=where,
            hint="copy the artifact again, or compile the model again",
        ) from error
    identity, program = identity_of(bundle.manifest, BOUND), bundle.program
    is_its_own = program is None or identity_in_program(program) == identity
    if not is_its_own or found != build_id_of(identity, program):
        raise ArtifactError(
            f"the parts of the artifact do not belong together: {LIBRARY} was compiled with "
            f"another {MANIFEST}, {' or '.join(BOUND)}",
            where=where,
            hint="compile the model again; an artifact's parts cannot be changed by hand",
        )


def file_sha256(path: Path) -> str:
    """The sha256 of a file, in hex."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _readable(where: str) -> Iterator[None]:
    try:
        yield
    except _UNREADABLE as error:
        if isinstance(error, OSError) and disk_is_full(error):
            raise disk_full(error, tempfile.gettempdir()) from error
        raise ArtifactError(
            f"not a complete odtc artifact ({error})",
            where=where,
            hint="copy the artifact again, or compile the model again",
        ) from error


def owned(bundle: Bundle) -> Bundle:
    """The bundle, to whose life that of its folder is tied."""
    weakref.finalize(bundle, remove_folder, bundle.root)
    return bundle
