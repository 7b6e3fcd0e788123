"""Temporary files and folders that do not outlive their process for long, even a killed one.

A process that is killed cleans nothing up, so the next one does. Each temporary thing is held by a
lock (`flock`) that the system lets go of however its process ends: what can be locked belongs to
nobody any more. A process number would not do, for numbers come again.

Names hold a key of the machine, because a folder may be shared by several: whether another machine
holds a lock is not always seen here, so what is another's is never touched.

A thing is there for a moment before it is locked, and another process may remove it then. Who makes
one looks for it once more when it has the lock, and makes another where it is gone.

Ctrl-C and its like may come between any two steps here. So a thing is known before it is there, and
until it is gone: what an exception got in the way of, `remove_all` does at the end of the process.

Where there is no `flock`, nothing is held, and what a process that was killed leaves stays.
"""

import atexit
import functools
import hashlib
import os
import secrets
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from odtc.core.disk.locks import HAS_FLOCK, take_lock

LOCK = ".lock"

_PREFIX = "odtc"
# A name may have 255 bytes; what is added to that of a target has less than these.
_LONGEST_NAME = 255 - 32
_RANDOM = 8
_NO_LOCK = -1
# Windows has no links that a name leads to by itself.
_NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
# Folders that may be there, each with its lock and the process that made it, not one forked.
_folders: dict[Path, tuple[int, int]] = {}
# Files beside their targets that may be there.
_files: set[Path] = set()


def new_folder(place: Path | None = None) -> Path:
    """A new folder for temporary files, for this user alone; `remove_folder` is its end.

    Args:
        place: where; the system's folder for temporary files by default.

    Raises:
        OSError: there is no place for one.
    """
    place = place or Path(tempfile.gettempdir())
    prefix = f"{_PREFIX}-{_machine()}-"
    _remove_folders(place, prefix)
    while True:
        folder = place / _random_name(prefix)
        _folders[folder] = (_NO_LOCK, os.getpid())
        if _is_new_folder(folder):
            return folder
        del _folders[folder]


def _is_new_folder(folder: Path) -> bool:
    """Makes a folder, and locks it; whether nobody had it before, or has removed it meanwhile."""
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)
        if not HAS_FLOCK:
            return True
        with suppress(FileNotFoundError):
            lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
            if _is_held(lock, folder / LOCK):
                _folders[folder] = (lock, os.getpid())
                return True
            os.close(lock)
    return False


def remove_folder(folder: Path) -> None:
    """Removes a folder that this process made; without a word if it cannot."""
    held = _folders.get(folder)
    if held and held[1] == os.getpid():
        _remove_tree(folder)
        if _folders.pop(folder, None) and held[0] != _NO_LOCK:
            os.close(held[0])


@atexit.register
def remove_all() -> None:
    """Removes all that this process has; for one that ends at once."""
    for folder in list(_folders):
        remove_folder(folder)
    for path in list(_files):
        with suppress(OSError):
            path.unlink()
        _files.discard(path)


@contextmanager
def temporary_folder(place: Path | None = None) -> Iterator[Path]:
    """Yields a new folder, which goes with the block.

    Args:
        place: as of `new_folder`.

    Raises:
        OSError: there is no place for one.
    """
    folder = new_folder(place)
    try:
        yield folder
    finally:
        remove_folder(folder)


@contextmanager
def temporary_beside(target: Path) -> Iterator[Path]:
    """Yields a new empty file beside `target`, which goes with the block if it is still there.

    Raises:
        OSError: the folder does not exist, is not writable, or has no room.
    """
    name = target.name.encode()[:_LONGEST_NAME].decode(errors="ignore")
    prefix = f".{name}.{_machine()}-"
    _remove_files(target.parent, prefix)
    lock, path = _new_file(target.parent, prefix)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)
        _files.discard(path)
        if lock != _NO_LOCK:
            os.close(lock)


def _new_file(folder: Path, prefix: str) -> tuple[int, Path]:
    while True:
        path = folder / _random_name(prefix)
        _files.add(path)
        with suppress(FileExistsError):
            lock = os.open(path, _NEW_FILE, 0o600)
            if not HAS_FLOCK:
                os.close(lock)
                return _NO_LOCK, path
            if _is_held(lock, path):
                return lock, path
            os.close(lock)
        _files.discard(path)


def _random_name(prefix: str) -> str:
    return prefix + secrets.token_hex(_RANDOM // 2)


def _is_held(lock: int, path: Path) -> bool:
    """Takes a lock; whether it was free, and `path` is still what is locked."""
    try:
        take_lock(lock)
    except BlockingIOError:
        return False
    except OSError:
        # A file system without locks. Nobody else can lock it either, so that it stays.
        return True
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(lock), os.stat(path, follow_symlinks=False))
    return False


@functools.cache
def _remove_folders(place: Path, prefix: str) -> None:
    """Removes folders of processes that are gone: once, for no folder is made for ever."""
    for entry in _own(place, prefix):
        if stat.S_ISDIR(entry.stat(follow_symlinks=False).st_mode):
            with suppress(OSError):
                _remove_left_folder(Path(entry.path))


@functools.cache
def _remove_files(folder: Path, prefix: str) -> None:
    """Removes temporary files beside a target, of processes that are gone."""
    for entry in _own(folder, prefix):
        if stat.S_ISREG(entry.stat(follow_symlinks=False).st_mode):
            with suppress(OSError), _locked(Path(entry.path)):
                os.unlink(entry.path)


def _own(folder: Path, prefix: str) -> list[os.DirEntry[str]]:
    """The entries of this user in a folder, of names that are made here and can be locked."""
    if not HAS_FLOCK:
        return []
    length = len(prefix) + _RANDOM
    with suppress(OSError), os.scandir(folder) as entries:
        return [
            entry
            for entry in entries
            if entry.name.startswith(prefix) and len(entry.name) == length and _is_own(entry)
        ]
    return []


def _is_own(entry: os.DirEntry[str]) -> bool:
    with suppress(OSError):
        return entry.stat(follow_symlinks=False).st_uid == os.getuid()
    return False


def _remove_left_folder(folder: Path) -> None:
    try:
        with _locked(folder / LOCK):
            _remove_tree(folder)
    except FileNotFoundError:
        # Killed before it had a lock, or after the end of one: it is empty then.
        folder.rmdir()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """A block that has the lock which nobody else has.

    Raises:
        OSError: somebody else has it, or no lock can be had.
    """
    lock = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        take_lock(lock)
        yield
    finally:
        os.close(lock)


def _remove_tree(folder: Path) -> None:
    """Removes a folder, its lock last: one that is left can still be recognised.

    That is one whose process is killed meanwhile, or into which a program still writes that a
    killed process had started, such as a linker.
    """
    with suppress(OSError):
        for entry in os.scandir(folder):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            elif entry.name != LOCK:
                with suppress(OSError):
                    os.unlink(entry.path)
        if os.listdir(folder) == [LOCK]:
            os.unlink(folder / LOCK)
        os.rmdir(folder)


@functools.cache
def _machine() -> str:
    """A few characters that tell machines apart which may share a folder."""
    own = b""
    with suppress(OSError):
        own = Path("/etc/machine-id").read_bytes()
    return hashlib.sha256(own + socket.gethostname().encode()).hexdigest()[:6]
