"""Locks of whole files, which the system lets go of however their process ends.

On Windows such a lock keeps others from reading the file, too, and nobody can remove or replace a
file that is open: so what holds one for long holds none there (`HAS_FLOCK`).
"""

import importlib
from typing import Any

try:
    import fcntl
except ImportError:
    fcntl: Any = None

HAS_FLOCK = fcntl is not None


def wait_for_lock(file: int) -> None:
    """Locks an open file, once nobody else has; closing it is the end of that.

    Raises:
        OSError: its file system has no locks.
    """
    if fcntl:
        fcntl.flock(file, fcntl.LOCK_EX)
        return
    windows = importlib.import_module("msvcrt")
    while True:
        try:
            windows.locking(file, windows.LK_LOCK, 1)
        except PermissionError:
            # It has tried for ten seconds.
            continue
        return


def take_lock(file: int) -> None:
    """Locks an open file; it is for systems that have `flock`.

    Raises:
        BlockingIOError: somebody else has it.
        OSError: its file system has no locks.
    """
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
