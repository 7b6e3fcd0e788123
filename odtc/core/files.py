"""Files are written whole or not at all, and a failure to write says which file and why."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from odtc.core.errors import OutputError


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yields a temporary path beside `path`; it replaces `path` when the block ends well.

    Raises:
        OutputError: the folder does not exist, is not writable, or the disk is full.
    """
    final = Path(path)
    temporary: Path | None = None
    try:
        handle, name = tempfile.mkstemp(dir=final.parent, prefix=f".{final.name}.")
        os.close(handle)
        temporary = Path(name)
        os.chmod(temporary, 0o666 & ~_umask())
        yield temporary
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        os.replace(temporary, final)
    except OSError as error:
        raise OutputError(
            f"cannot write the file: {error.strerror or error}",
            where=str(final),
            hint="choose a folder that exists, is writable, and has room",
        ) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
