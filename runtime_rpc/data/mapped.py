"""Arrays that stay in their file: of one that is larger than the memory, a step reads its samples.

Pages of a mapped file count as memory of the process until the system takes them, which it does
late. So they are let go after each batch: what is read again soon is still in the system's cache.
"""

import mmap
import os
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np

# What a file of a member's own begins with, in front of its name: see the zip format.
_LOCAL_HEADER, _NAME_AT = 30, 26
# Smaller arrays are read: they cost less than their pages.
LEAST_BYTES = 1 << 20


def mapped_array(
    path: Path, offset: int, dtype: np.dtype, shape: tuple[int, ...], *, fortran: bool = False
) -> np.ndarray:
    """An array in a file.

    Raises:
        ValueError: the file ends before it.
    """
    order = "F" if fortran else "C"
    return np.memmap(path, dtype, "r", offset, shape, order)  # type: ignore[call-overload]


def mapped_npy(path: Path) -> np.ndarray:
    """The array of an `.npy` file.

    Raises:
        ValueError: it is none, or holds objects.
    """
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    return array if array.nbytes >= LEAST_BYTES else np.array(array)


def mapped_member(path: Path, archive: zipfile.ZipFile, name: str) -> np.ndarray | None:
    """An array of an `.npz` file; None where it is compressed, small, or of another kind.

    Raises:
        ValueError: the file ends before it, or it holds objects.
    """
    item = archive.getinfo(f"{name}.npy")
    is_stored = item.compress_type == zipfile.ZIP_STORED and not item.flag_bits & 0x1
    if not is_stored or item.file_size < LEAST_BYTES:
        return None
    with open(path, "rb") as file:
        file.seek(item.header_offset + _NAME_AT)
        lengths = file.read(4)
        file.seek(item.header_offset + _LOCAL_HEADER + sum(np.frombuffer(lengths, "<u2").tolist()))
        shape, fortran, dtype = _npy_header(file)
        if dtype.hasobject:
            return None
        return mapped_array(path, file.tell(), dtype, shape, fortran=fortran)


def _npy_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    version = np.lib.format.read_magic(file)
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }.get(version)
    if read is None:
        raise ValueError(f"arrays of version {version} are not read")
    return read(file)


def is_mapped(array: np.ndarray) -> bool:
    """Whether an array lies in a file."""
    return _map_of(array) is not None


def let_go(array: np.ndarray) -> None:
    """Lets the system have the pages of an array that lies in a file."""
    held = _map_of(array)
    if held is not None:
        held.madvise(mmap.MADV_DONTNEED)


def _map_of(array: Any) -> mmap.mmap | None:
    while isinstance(array, np.ndarray):
        array = array.base
    return array if isinstance(array, mmap.mmap) and os.name == "posix" else None
