"""Memory for features: of the process, or a file's that the system may take back."""

import os
import tempfile
from collections.abc import Sequence
from typing import IO

import numpy as np

from odtc.core.disk.files import cache_folder

# Above this they lie in a file, whose pages are no memory of the process once they are let go.
_IN_MEMORY = 64 << 20
_ZEROS = bytes(1 << 20)


def _allocate(file: IO[bytes], nbytes: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, nbytes)
        return
    # macOS and Windows have none.
    for begin in range(0, nbytes, len(_ZEROS)):
        file.write(_ZEROS[: nbytes - begin])
    file.flush()


def kept_array(shape: Sequence[int], dtype: str) -> np.ndarray:
    """An array of zeros; a large one lies in a file without a name, which goes when it does.

    Raises:
        OSError: there is no room for the file.
    """
    nbytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    if nbytes <= _IN_MEMORY:
        return np.zeros(shape, dtype)
    folder = cache_folder() / "storage"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder) as file:
        # All of its blocks: one that is missing would end the process in a step.
        _allocate(file, nbytes)
        return np.memmap(file, dtype, "r+", shape=tuple(shape))  # type: ignore[call-overload]
