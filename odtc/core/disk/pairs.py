"""A file and what it names beside it are written both, or neither."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from odtc.core.disk.files import check_writable, output_errors
from odtc.core.disk.left_behind import temporary_folder


@contextmanager
def atomic_pair(path: str | os.PathLike[str], beside: str) -> Iterator[Path]:
    """Yields a path of the same name in a new folder, for a file and another beside it.

    When the block ends well, both replace those of `path`. A file that is there goes before the one
    beside it is replaced, so that it never names what is another's.

    Args:
        path: of the file; a link is followed.
        beside: what the other has behind the file's name.

    Raises:
        OutputError: a folder does not exist or is not writable, or the disk is full.
    """
    final = Path(os.path.realpath(path))
    other = final.with_name(final.name + beside)
    for each in (path, other):
        check_writable(each)
    with output_errors(path), temporary_folder(final.parent) as folder:
        made = folder / final.name
        yield made
        made_other = made.with_name(other.name)
        for each in (made_other, made):
            with open(each, "rb") as written:
                os.fsync(written.fileno())
        final.unlink(missing_ok=True)
        os.replace(made_other, other)
        os.replace(made, final)
