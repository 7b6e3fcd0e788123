"""Copies of parts of files and of arrays, in a file without a name; memory holds what is read.

They are copies, as who shortens a file that another process has mapped ends that process.
"""

import mmap
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO, Self

import numpy as np

_BLOCK = 1 << 20


class Copies:
    """Parts of files and arrays, which are mapped once all of them are there.

    Where TMPDIR has no room there are none.
    """

    def __init__(self) -> None:
        self._places: dict[str, tuple[int, int]] = {}
        self._end = 0
        self._file: IO[bytes] | None = None
        with suppress(OSError):
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed on leaving

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.close()

    def add(self, name: str, path: Path, offset: int, length: int) -> None:
        """Copies a part of a file.

        Raises:
            OSError: the file cannot be read.
            ValueError: it ends before.
        """
        left = length
        with path.open("rb", buffering=0) as source:
            source.seek(offset)
            self._begin(name, length)
            while left and (block := source.read(min(_BLOCK, left))):
                self._write(block)
                left -= len(block)
        if left:
            raise ValueError(f"{path} ends before byte {offset + length:,}")

    def put(self, name: str, array: np.ndarray) -> None:
        """Copies an array of at least one dimension; its elements in the order of C."""
        self._begin(name, array.nbytes)
        self._write(np.ascontiguousarray(array).view(np.uint8).reshape(-1).data)

    def mapped(self) -> dict[str, np.ndarray]:
        """The bytes of each part by its name, read-only; nothing where there was no room."""
        if self._file is None or not self._end:
            return {}
        whole = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        return {
            name: np.frombuffer(whole, np.uint8, length, begin)
            for name, (begin, length) in self._places.items()
        }

    def _begin(self, name: str, length: int) -> None:
        self._write(bytes(-self._end % mmap.PAGESIZE))
        self._places[name] = self._end, length

    def _write(self, data: bytes | memoryview) -> None:
        if self._file is None:
            return
        try:
            while data:
                count = self._file.write(data)
                data, self._end = data[count:], self._end + count
        except OSError:
            self._file.close()
            self._file = None


def leave_pages(arrays: Iterable[np.ndarray]) -> None:
    """Takes the pages of such arrays out of this process's memory, until they are looked at again.

    Args:
        arrays: some may be others, which stay where they are.
    """
    for array in arrays:
        held: object = array
        while isinstance(held, np.ndarray):
            held = held.base
        if isinstance(held, memoryview):
            held = held.obj
        if array.size and isinstance(held, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            whole = np.frombuffer(held, np.uint8).ctypes.data
            first, end = (at - whole for at in np.lib.array_utils.byte_bounds(array))
            first -= first % mmap.PAGESIZE
            held.madvise(mmap.MADV_DONTNEED, first, end - first)
