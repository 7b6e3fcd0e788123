"""Sees which files a process opens: its Python through an audit hook, its C++ through inotify."""

import ctypes
import os
import struct
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from odtc.core.disk.files import cache_folder

_IN_OPEN, _IN_ACCESS = 0x20, 0x1
_IN_NONBLOCK = os.O_NONBLOCK
_EVENT = struct.Struct("iIII")

# What running Python and TVM opens: code, the kernel's files, the null device.
_ROOT = Path(__file__).parents[2]
_CODE = (
    *(sys.prefix, sys.base_prefix, sysconfig.get_path("stdlib"), str(_ROOT)),
    *("/usr/lib", "/lib", "/etc/ld.so", "/proc", "/sys", os.devnull, "/dev/urandom"),
    # Folders that are left behind have a key of their machine in their names.
    "/etc/machine-id",
)
# Part of the above, but nothing that a compiler reads.
_SECRETS = ("/proc/self/environ",)
_opened: list[str] = []
_listening = False


@contextmanager
def foreign_opens(*folders: str, canary: Path) -> Iterator[list[str]]:
    """Collects the files that are opened within the block and are neither code nor allowed.

    Args:
        folders: where files may be opened.
        canary: a file outside, watched in the kernel.
    """
    global _listening  # noqa: PLW0603
    if not _listening:
        # A hook cannot be taken away again.
        sys.addaudithook(_hook)
        _listening = True
    found: list[str] = []
    # Parts in C and C++, which are built where they are used.
    built = str(cache_folder() / "libraries")
    allowed = (*(os.path.realpath(folder) for folder in (*folders, built)), *_CODE)
    with _inotify(canary) as touched:
        _opened.clear()
        yield found
        found += [path for path in _opened if not _is_allowed(path, allowed)]
        found += [f"{canary} (seen by the kernel)"] if touched() else []


def _is_allowed(path: str, allowed: tuple[str, ...]) -> bool:
    return path not in _SECRETS and os.path.realpath(path).startswith(allowed)


def _hook(event: str, arguments: tuple) -> None:
    if event == "open" and isinstance(arguments[0], str | bytes):
        _opened.append(os.fsdecode(arguments[0]))


@contextmanager
def _inotify(path: Path) -> Iterator:
    libc = ctypes.CDLL(None, use_errno=True)
    handle = libc.inotify_init1(_IN_NONBLOCK)
    try:
        if libc.inotify_add_watch(handle, os.fsencode(path), _IN_OPEN | _IN_ACCESS) < 0:
            raise OSError(ctypes.get_errno(), "inotify")

        def touched() -> bool:
            try:
                return len(os.read(handle, 4096)) >= _EVENT.size
            except BlockingIOError:
                return False

        yield touched
    finally:
        os.close(handle)
