"""Bytes that are kept between runs under the hash of what they were made from.

An entry is a file: the SHA-256 of its key and content, and the content. It is written beside the
others and renamed, and its hash is compared when it is read: what a crash or a full disk cut short,
or what was damaged since, is not found. Any number of processes may share a store; none waits for
another.

A store never fails: where it cannot be read nothing is found, and where it cannot be written
nothing is kept. Who measures what work takes does so within `nothing_kept`.

Entries lie in folders by the beginning of their keys, each with an equal share of the bytes: what
was not used for longest goes, and only one folder is looked through for it.
"""

import hashlib
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from odtc.core.disk.left_behind import temporary_beside

_HASH_BYTES = hashlib.sha256().digest_size
# What is left of a full folder, so that not each new entry has to look through it.
_LEFT = 0.75
# An entry says when it was used last, to so many seconds.
_USED_SECONDS = 600


# One for each block of `nothing_kept`; of all threads, as work is shared by them.
_off: list[None] = []


@contextmanager
def nothing_kept() -> Iterator[None]:
    """Within the block, nothing is found in any store, and nothing is kept."""
    _off.append(None)
    try:
        yield
    finally:
        _off.pop()


@dataclass(frozen=True)
class Size:
    """Size of a store.

    Attributes:
        entries: how many.
        nbytes: of their files.
    """

    entries: int
    nbytes: int


@dataclass(frozen=True)
class ContentStore:
    """A store.

    Attributes:
        folder: that it lies in; it may not exist yet.
        most_bytes: that it may grow to.
        digits: of a key, by which its folder is called. An entry may be as large as what each of
            the folders may hold.
    """

    folder: Path
    most_bytes: int
    digits: int = 2

    def get(self, key: str) -> bytes | None:
        """The content under a key; None where there is none, or where it is damaged.

        Args:
            key: a hash, in hex.
        """
        if not self.is_used:
            return None
        path = self._path(key)
        try:
            found = path.read_bytes()
            used = path.stat().st_mtime
        except OSError:
            return None
        digest, content = found[:_HASH_BYTES], found[_HASH_BYTES:]
        if _digest(key, content) != digest:
            with suppress(OSError):
                path.unlink()
            return None
        if time.time() - used > _USED_SECONDS:
            with suppress(OSError):
                os.utime(path)
        return content

    def put(self, key: str, content: bytes) -> None:
        """Keeps content under a key.

        Args:
            key: a hash, in hex.
            content: any bytes; more than a folder's share are not kept.
        """
        if not self.is_used or len(content) + _HASH_BYTES > self.most_of_one:
            return
        path = self._path(key)
        with suppress(OSError):
            # A mode is that of the last folder alone, and a umask may let others write to the rest.
            for each in (self.folder.parent, self.folder, path.parent):
                each.mkdir(mode=0o700, parents=True, exist_ok=True)
            # All have one name until they are whole: the next process finds what one left behind.
            with temporary_beside(self.folder / "new") as temporary:
                temporary.write_bytes(_digest(key, content) + content)
                os.replace(temporary, path)
            self._make_room(path.parent)

    def size(self) -> Size:
        """Its size now."""
        sizes = [size for folder in self._folders() for _, size, _ in _files(folder)]
        return Size(len(sizes), sum(sizes))

    def clear(self) -> Size:
        """Removes all; returns what that was.

        Raises:
            OSError: something cannot be removed.
        """
        before = self.size()
        for folder in self._folders():
            for _, _, path in _files(folder):
                path.unlink(missing_ok=True)
        return before

    @property
    def is_used(self) -> bool:
        """Whether anything is found in it, and kept: without, nobody needs the key of an entry."""
        return not (_off or self.problem)

    @cached_property
    def problem(self) -> str:
        """Why it is not used; empty where it is."""
        # Who writes an entry writes its hash, too; who may rename the folder brings another one.
        for folder in (self.folder.parent, self.folder):
            try:
                found = folder.stat()
            except FileNotFoundError:
                return ""
            except OSError as error:
                return error.strerror or str(error)
            if not stat.S_ISDIR(found.st_mode):
                return "it is not a folder"
            if _may_be_written(found, is_store=folder is self.folder):
                return "others can write to it"
        return ""

    @property
    def most_of_one(self) -> int:
        """Bytes that an entry may have, its hash included."""
        return self.most_bytes // 16**self.digits

    def _path(self, key: str) -> Path:
        return self.folder / key[: self.digits] / key[self.digits :]

    def _folders(self) -> Iterator[Path]:
        for number in range(16**self.digits):
            yield self.folder / f"{number:0{self.digits}x}"

    def _make_room(self, folder: Path) -> None:
        found = sorted(_files(folder))
        left = sum(size for _, size, _ in found)
        if left <= self.most_of_one:
            return
        for _, size, path in found:
            if left <= self.most_of_one * _LEFT:
                break
            path.unlink(missing_ok=True)
            left -= size


def _digest(key: str, content: bytes) -> bytes:
    """The hash of an entry: one that lies under another key is damaged, too."""
    return hashlib.sha256(key.encode() + content).digest()


def _may_be_written(found: os.stat_result, *, is_store: bool) -> bool:
    """Whether others may put their own entries into a store, or their own store in its place.

    Args:
        found: what the system says of a folder.
        is_store: whether that is the store's; else the store lies in it. That may be root's, and
            one in which nobody renames what is another's, as in /tmp.
    """
    if not hasattr(os, "getuid"):
        # Windows has no such numbers and bits: a user's folders are the user's own.
        return False
    if found.st_uid != os.getuid() and (is_store or found.st_uid != 0):
        return True
    is_shared = bool(found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
    return is_shared and (is_store or not found.st_mode & stat.S_ISVTX)


def _files(folder: Path) -> list[tuple[float, int, Path]]:
    """When each entry was used, its bytes, and its path."""
    found: list[tuple[float, int, Path]] = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                about = entry.stat(follow_symlinks=False)
                found.append((about.st_mtime, about.st_size, Path(entry.path)))
    return found
