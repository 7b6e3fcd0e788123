"""Files are written whole or not at all, and a failure to write says which file and why."""

import errno
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from odtc.core.disk.left_behind import new_folder, temporary_beside, temporary_folder
from odtc.core.errors import OutputError
from odtc.core.options.option_text import close_name

# Of a disk, of a user's share, and of what a process may write into one file.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# Names of a folder that are compared with one that is not there.
_MOST_BESIDE = 1000


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yields a temporary path beside `path`; it replaces `path` when the block ends well.

    A link is followed. A device or a folder is never replaced.

    Raises:
        OutputError: the folder does not exist, is not writable, or the disk is full.
    """
    with output_errors(path), _temporary(path) as (temporary, final):
        yield temporary
        with open(temporary, "r+b") as written:
            os.fsync(written.fileno())
        os.replace(temporary, final)


@contextmanager
def atomic_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yields a new folder beside `path`, which is `path` when the block ends well.

    Raises:
        OutputError: `path` has files in it or is none of a folder, its own folder does not exist or
            is not writable, or the disk is full.
    """
    final = Path(os.path.realpath(path))
    with output_errors(path, "folder"), temporary_folder(final.parent) as place:
        _check_free(final, path)
        made = place / "made"
        made.mkdir()
        yield made
        for written in (each for each in made.rglob("*") if each.is_file()):
            with open(written, "rb") as file:
                os.fsync(file.fileno())
        made.rename(final)


def check_new_folder(path: str | os.PathLike[str]) -> None:
    """Checks that `path` is free for a new folder, before the work that it is to hold.

    Raises:
        OutputError: it has files in it or is none of a folder, or its own folder does not exist or
            is not writable.
    """
    final = Path(os.path.realpath(path))
    with output_errors(path, "folder"), temporary_folder(final.parent):
        _check_free(final, path)


def _check_free(final: Path, path: str | os.PathLike[str]) -> None:
    if final.exists() and (not final.is_dir() or any(final.iterdir())):
        raise OutputError(
            f"{'the folder has files in it' if final.is_dir() else 'it is a file'} already",
            where=str(path),
            hint="name a new folder",
        )


def check_writable(path: str | os.PathLike[str]) -> None:
    """Checks that `path` can be written, before the work that it is to hold; it leaves no trace.

    Raises:
        OutputError: the folder does not exist or is not writable, or `path` is not a file.
    """
    with output_errors(path), _temporary(path):
        return


def private_folder() -> Path:
    """A new folder that only this user can enter; `left_behind.remove_folder` is its end.

    Raises:
        OutputError: there is no place for one.
    """
    with output_errors("the folder for temporary files"):
        return new_folder()


def cache_folder() -> Path:
    """The folder of what odtc keeps between runs; it may be missing, or impossible to make."""
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # As the specification of these variables has it: what is relative is passed over.
    return (given if given.is_absolute() else _home() / ".cache") / "odtc"


def _home() -> Path:
    """The user's own folder; for one without any, as containers have them, one that is nobody's."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/nonexistent")


def check_room(needed: int) -> None:
    """Checks the room for temporary files, for work that cannot say so itself when it runs out.

    Args:
        needed: free bytes that the work wants.

    Raises:
        OutputError: there is less.
    """
    with output_errors("the folder for temporary files"):
        folder = tempfile.gettempdir()
        free = shutil.disk_usage(folder).free
    if free < needed:
        raise OutputError(
            f"the folder for temporary files has {free} bytes left; {needed} are needed",
            where=folder,
            hint="free some space there, or set TMPDIR to a folder that has enough",
        )


def check_the_path(path: str | os.PathLike[str]) -> str:
    """The hint for a file that is not there: one beside it with nearly its name and its ending."""
    if os.path.exists(path) and not os.path.isdir(path):
        return "write what comes from it to a file, and give that"
    folder, name = os.path.split(path)
    stem, ending = os.path.splitext(name)
    try:
        with os.scandir(folder or ".") as entries:
            names = [each.name for each in itertools.islice(entries, _MOST_BESIDE)]
    except OSError:
        names = []
    apart = [os.path.splitext(each) for each in names if each != name]
    alike = [each for each, its_ending in apart if its_ending == ending]
    near = close_name(stem, alike)
    return f"did you mean {os.path.join(folder, near + ending)}?" if near else "check the path"


def not_a_file(path: str | os.PathLike[str]) -> str:
    """Why there is no file at a path that can be read, for a message."""
    if os.path.isdir(path):
        return "is a folder"
    # What is read from a pipe is gone, and files are read more than once.
    return "is a pipe or a device, not a file" if os.path.exists(path) else "does not exist"


def check_programs(folder: str | os.PathLike[str]) -> None:
    """Checks that libraries can be loaded from a folder, as hardened systems have /tmp without.

    Raises:
        OutputError: it is mounted so that they cannot.
    """
    # Other systems than Linux do not say it.
    if hasattr(os, "ST_NOEXEC") and os.statvfs(folder).f_flag & os.ST_NOEXEC:
        raise OutputError(
            "the folder for temporary files is mounted noexec: no library can be loaded from it",
            where=str(folder),
            hint="set TMPDIR to a folder that may hold programs, such as one in your home",
        )


@contextmanager
def output_errors(path: str | os.PathLike[str], what: str = "file") -> Iterator[None]:
    """The system's failures to write become an error that names the file, or what else it is."""
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"cannot write the {what}: {error.strerror or error}",
            where=str(path),
            hint="choose a folder that exists, is writable, and has room",
        ) from error


def disk_is_full(error: OSError) -> bool:
    """Whether the system had no room left."""
    return error.errno in _FULL


def disk_full(error: OSError, where: str | None = None) -> OutputError:
    """The error of a disk that is full; `where` is used if the error names no file itself."""
    return OutputError(
        f"cannot write: {error.strerror}",
        where=error.filename or where,
        hint="free some space, or set TMPDIR to another folder for temporary files",
    )


@contextmanager
def _temporary(path: str | os.PathLike[str]) -> Iterator[tuple[Path, Path]]:
    """Yields a new empty file beside that of a path, with the permissions of an ordinary one."""
    final = Path(os.path.realpath(path))
    if os.fspath(path).endswith(os.sep) and not final.exists():
        raise OSError(errno.EISDIR, "the path is that of a folder")
    if final.exists() and not final.is_file():
        code = errno.EISDIR if final.is_dir() else errno.EINVAL
        raise OSError(code, os.strerror(code) if final.is_dir() else "it is not a regular file")
    with temporary_beside(final) as temporary:
        os.chmod(temporary, 0o666 & ~_umask())
        yield temporary, final


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
