"""Gives memory that a process has free back to the system."""

import ctypes
import gc


def trim() -> None:
    """Returns free memory of Python and, where that can, of the C library to the system.

    What was allocated in pieces of less than 32 MB is not returned by itself, as long as a piece
    behind it is in use.
    """
    gc.collect()
    if give_back := getattr(ctypes.CDLL(None), "malloc_trim", None):
        give_back(0)
