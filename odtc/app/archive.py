"""Archives that Android's builds take, with the same bytes whenever they are written."""

import io
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path

from odtc.core.artifact.archive import NO_TIME
from odtc.core.disk.left_behind import temporary_folder

_READABLE = 0o644 << 16


def write_archive(output: Path, files: Mapping[str, bytes | Path]) -> None:
    """Writes a zip file, which a jar and an AAR are.

    Args:
        output: a new path.
        files: what is in it by its path there: content, or a file.

    Raises:
        OSError: it cannot be written, or a file cannot be read.
    """
    with zipfile.ZipFile(output, "w") as out:
        for name, source in sorted(files.items()):
            is_file = isinstance(source, Path)
            entry = zipfile.ZipInfo(name, NO_TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            entry.external_attr = _READABLE
            entry.file_size = source.stat().st_size if is_file else len(source)
            with (
                source.open("rb") if is_file else io.BytesIO(source) as content,
                out.open(entry, "w") as member,
            ):
                shutil.copyfileobj(content, member)


def archive(files: Mapping[str, bytes | Path]) -> bytes:
    """The content of such a file, of one that goes into another."""
    with temporary_folder() as folder:
        write_archive(folder / "archive", files)
        return (folder / "archive").read_bytes()
