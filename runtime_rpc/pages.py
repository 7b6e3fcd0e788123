"""Memory of an arena that changes its size and keeps its pages: `mremap` moves none of them."""

import ctypes
import mmap
from contextlib import suppress

import numpy as np
import tvm


class Pages:
    """Anonymous memory of this process, which ends with this object.

    What it has beyond a smaller size goes back to the system at once, and what a larger one adds is
    asked for when it is first written. In huge pages, where the system has them, that is several
    times cheaper, as is finding an address in them.
    """

    def __init__(self) -> None:
        self._memory: mmap.mmap | None = None

    def __call__(self, nbytes: int) -> list[tvm.runtime.Tensor]:
        """The memory with another size, as a step takes it: a tensor of bytes in a tuple.

        No earlier tensor of it may be used any more.

        Raises:
            OSError: there is no room for so many bytes; those that were there are given back.
        """
        try:
            memory = self._resized(nbytes)
        except OSError as error:
            self._memory = None
            # How a device of another kind says it, see `odtc.runtime_rpc.guards.failures`.
            raise OSError(f"a buffer of {nbytes} bytes: {error.strerror}") from error
        self._memory = memory
        # By its address: a buffer that is referred to cannot change its size.
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        held = (ctypes.c_uint8 * nbytes).from_address(address)
        return [tvm.runtime.from_dlpack(np.ctypeslib.as_array(held))]

    def _resized(self, nbytes: int) -> mmap.mmap:
        if self._memory is not None:
            self._memory.resize(nbytes)
            return self._memory
        memory = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        with suppress(OSError):
            # A system may have none.
            memory.madvise(mmap.MADV_HUGEPAGE)
        return memory
