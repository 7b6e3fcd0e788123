"""Gives memory that a process has free back to the system."""

import ctypes
import gc
from contextlib import suppress


def trim() -> None:
    """Returns free memory of Python and, where that can, of the C library to the system.

    What was allocated in pieces of less than 32 MB is not returned by itself, as long as a piece
    behind it is in use.
    """
    gc.collect()
    # A host of phones may have no list of all symbols, as Windows.
    with suppress(OSError, TypeError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
