"""The zip file of an artifact, before anything of it is unpacked.

Deflated, a megabyte may hold a gigabyte. Members are stored, as odtc writes them, so that none is
larger than the file that it is in, and all together are not either.
"""

import io
import os
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from odtc.core.errors import ArtifactError

# Of each member of a file that has the same bytes whenever it is written: the first of the format.
NO_TIME = (1980, 1, 1, 0, 0, 0)

_ENCRYPTED = 0x1
_HINT = "copy the artifact again, or compile the model again"


def require_stored(
    archive: zipfile.ZipFile, most: Mapping[str, int | None], size: int, where: str
) -> None:
    """Checks how the members of an artifact lie in its file.

    Args:
        archive: the opened artifact.
        most: bytes that each of its members may have, by name; None for no limit but the file's.
        size: of the file, in bytes.
        where: the artifact, for messages.

    Raises:
        ArtifactError: a member is there twice, compressed, encrypted or too large.
        KeyError: it is not there.
    """
    counts, total = Counter(archive.namelist()), 0
    for name, limit in most.items():
        item = archive.getinfo(name)
        is_plain = item.compress_type == zipfile.ZIP_STORED and item.compress_size == item.file_size
        if not is_plain or item.flag_bits & _ENCRYPTED:
            raise _refused(f"the member {name} is compressed or encrypted; odtc stores it", where)
        if counts[name] > 1:
            raise _refused(f"the member {name} is there {counts[name]} times", where)
        if limit is not None and item.file_size > limit:
            raise _refused(
                f"the member {name} has {item.file_size:,} bytes; at most {limit:,} are read", where
            )
        total += item.file_size
    if total > size:
        raise _refused(f"its members have {total:,} bytes, and the file has {size:,}", where)


class _Opened(io.FileIO):
    """A file of which no piece is read that is larger than a zip file's directory may be."""

    def __init__(self, path: str | os.PathLike[str], most: int) -> None:
        super().__init__(path)
        self._most: int | None = most

    def read(self, size: int | None = -1) -> bytes:
        if self._most is not None and size is not None and size > self._most:
            raise zipfile.BadZipFile(
                f"its directory has {size:,} bytes; at most {self._most:,} are read"
            )
        return super().read(-1 if size is None else size)

    def opened(self) -> None:
        """Lets pieces of any size be read, once the directory was."""
        self._most = None


@contextmanager
def small_directory(path: str | os.PathLike[str], most: int) -> Iterator[_Opened]:
    """A zip file to be opened, whose directory is refused before it is read if it is too large.

    `zipfile` makes an object of each entry: a file of a gigabyte may have twenty million. Its
    directory is the only large thing that it asks for by its size when it opens a file.

    Args:
        path: of the file.
        most: bytes of its directory.

    Raises:
        BadZipFile: it is larger, when the file is opened.
    """
    with _Opened(path, most) as file:
        yield file


def _refused(what: str, where: str) -> ArtifactError:
    return ArtifactError(f"not a complete odtc artifact ({what})", where=where, hint=_HINT)
