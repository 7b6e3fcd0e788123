"""Memory between two guard pages, which may not be accessed: it ends where the second begins."""

import ctypes
import mmap
from collections.abc import Iterator, Sequence

import numpy as np
import tvm

from odtc.passes.memory.packing.problem import TENSOR_ALIGNMENT

PAGE = mmap.PAGESIZE
_NONE = 0
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def whole_pages(nbytes: int) -> int:
    """The bytes of the pages that so many need, at least one."""
    return max(-(-nbytes // PAGE), 1) * PAGE


def end_aligned(nbytes: int) -> int:
    """Where a tensor begins in its pages, so that it ends with them, up to its alignment."""
    return whole_pages(nbytes) - -(-nbytes // TENSOR_ALIGNMENT) * TENSOR_ALIGNMENT


class Guarded:
    """A mapping with pages that end the process when they are touched.

    What lies beside the tensors in pages of theirs holds a pattern, which nothing may change.

    Args:
        tensors: offset and bytes of each, in pages of their own.
        nbytes: of the whole mapping; all pages that no tensor lies in are guarded.
    """

    def __init__(self, tensors: Sequence[tuple[int, int]], nbytes: int) -> None:
        self._memory = mmap.mmap(-1, whole_pages(nbytes))
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self.nbytes = nbytes
        self._bytes = np.frombuffer(self._memory, np.uint8)
        self.tensors = sorted(set(tensors))
        used = {page for start, size in tensors for page in _pages(start, size)}
        self._beside = np.ones(len(self._bytes), bool)
        for start, size in tensors:
            self._beside[start : start + size] = False
        for page in range(len(self._bytes) // PAGE):
            if page not in used:
                self._beside[page * PAGE : (page + 1) * PAGE] = False
                _protect(self.address + page * PAGE, PAGE)

    def fill(self, value: int) -> None:
        """Fills the tensors, and what lies beside them, with a byte."""
        for start, size in self.tensors:
            for page in _pages(start, size):
                self._bytes[page * PAGE : (page + 1) * PAGE] = value

    def written_beside(self, value: int) -> list[int]:
        """Places beside the tensors that no longer hold the byte."""
        places = np.flatnonzero(self._beside)
        return places[self._bytes[places] != value].tolist()

    def tensor(self, offset: int, shape: Sequence[int], dtype: str) -> tvm.runtime.Tensor:
        """A tensor in it."""
        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        held = (ctypes.c_uint8 * size).from_address(self.address + offset)
        array = np.ctypeslib.as_array(held).view(dtype).reshape(tuple(shape))
        return tvm.runtime.from_dlpack(array)


def _pages(start: int, size: int) -> Iterator[int]:
    yield from range(start // PAGE, -(-(start + size) // PAGE))


def _protect(address: int, nbytes: int) -> None:
    if _libc.mprotect(address, nbytes, _NONE):
        raise OSError(ctypes.get_errno(), "mprotect")
