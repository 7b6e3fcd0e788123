"""A reader of device modules, by their documented format only."""

import re
import struct
from dataclasses import dataclass

OPENCL = struct.pack("<Q2s", 2, b"cl")
HANDLE = (3, 64, 1)
LAUNCH = {f"{of}.{axis}" for of in ("blockIdx", "threadIdx") for axis in "xyz"}


@dataclass
class Reader:
    data: bytes
    at: int

    def take(self, form: str) -> tuple:
        found = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return found

    def text(self) -> str:
        (size,) = self.take("<Q")
        self.at += size
        return self.data[self.at - size : self.at].decode()

    def kernels(self) -> dict[str, list[tuple]]:
        """Types of the arguments of each kernel; those declared for a launch are checked."""
        found = {}
        for _ in range(*self.take("<Q")):
            key, name = self.text(), self.text()
            types = [self.take("<BBH") for _ in range(*self.take("<Q"))]
            tags = [self.text() for _ in range(*self.take("<Q"))]
            for _ in range(*self.take("<Q")):
                self.take("<I")
            assert key == name
            assert HANDLE in types
            assert set(tags) <= {
                f"{of}.{axis}" for of in ("blockIdx", "threadIdx") for axis in "xyz"
            }
            found[name] = types
        return found


def opencl_module(library: bytes) -> tuple[dict[str, list[tuple]], dict[str, str]]:
    """Types of the arguments of a library's kernels, and their sources, by name."""
    reader = Reader(library, library.index(OPENCL))
    assert reader.text() == "cl"
    kernels = reader.kernels()
    parts = re.findall(r"// Function: (\w+)\n(.*?)(?=// Function: |\Z)", reader.text(), re.S)
    return kernels, dict(parts)
