"""Memory whose pages are a file's: the system writes them back, and takes them if need be."""

import math
import mmap
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tvm


def file_memory(shape: Sequence[int], dtype: str, folder: Path) -> tvm.runtime.Tensor:
    """Maps a new file without a name, which ends with the tensor, or with this process.

    All of its blocks are allocated: without that, a full disk would end the process in a step.

    Args:
        shape: of the tensor that is the file.
        dtype: of its elements.
        folder: that the file lies in; it is made if need be.

    Returns:
        The tensor, at the beginning of a page.

    Raises:
        OSError: the folder has no room, or cannot be written.
    """
    nbytes = math.prod(shape) * np.dtype(dtype).itemsize
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder, prefix="odtc-") as file:
        os.posix_fallocate(file.fileno(), 0, nbytes)
        pages = mmap.mmap(file.fileno(), nbytes)
    return tvm.runtime.from_dlpack(np.frombuffer(pages, dtype).reshape(shape))
