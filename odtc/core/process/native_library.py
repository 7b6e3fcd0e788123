"""Libraries in C++ that are built where they are used, and kept between runs.

sources, command, machine ─→ key ─┬─ kept ─────────→ loaded
└─ build → keep ─→
"""

import ctypes
import hashlib
import platform
from collections.abc import Callable, Iterable
from pathlib import Path

from odtc.core.disk.content_store import ContentStore
from odtc.core.disk.files import cache_folder
from odtc.core.disk.left_behind import temporary_folder

# One takes 0.2 MB.
_MOST_BYTES = 64 << 20
_NAME = "library.so"


def library_store() -> ContentStore:
    """Where they are kept, in the user's cache."""
    return ContentStore(cache_folder() / "libraries", _MOST_BYTES, digits=1)


def kept_library(made_from: Iterable[bytes], build: Callable[[Path], None]) -> bytes:
    """The content of a library, which is built unless it is kept.

    Args:
        made_from: all that it follows from, beside this machine's architecture and C library, as
            users may share a home between machines.
        build: writes it to a path.

    Raises:
        OSError: there is no room to build it.
    """
    parts = [*made_from, platform.machine().encode(), repr(platform.libc_ver()).encode()]
    key = hashlib.sha256(b"\0".join(parts)).hexdigest()
    store = library_store()
    content = store.get(key)
    if content is None:
        with temporary_folder() as folder:
            build(folder / _NAME)
            content = (folder / _NAME).read_bytes()
        store.put(key, content)
    return content


def load_library(content: bytes) -> ctypes.CDLL:
    """Loads a library from a file of its own: one that is cut short meanwhile ends the process.

    Raises:
        OSError: it cannot be written or loaded.
    """
    with temporary_folder() as folder:
        path = folder / _NAME
        path.write_bytes(content)
        return ctypes.CDLL(str(path))
