"""Types and constants of a module, and the capabilities that each requires.

Integers and floats of 8 and 16 bits can be stored without being computed with: that many phones
have only the first of the two is why the capability is asked for where a value is computed.
"""

import functools
import re
import struct
from dataclasses import dataclass

from odtc.backends.spirv.module import Module
from odtc.backends.spirv.opcodes import (
    BUFFER_IMAGE,
    FETCHED,
    UNKNOWN_FORMAT,
    Capability,
    Op,
    StorageClass,
)

_ARITHMETIC = {
    ("float", 16): Capability.FLOAT16,
    ("float", 64): Capability.FLOAT64,
    ("int", 8): Capability.INT8,
    ("int", 16): Capability.INT16,
    ("int", 64): Capability.INT64,
}
_IN_BUFFERS = {8: Capability.STORAGE_BUFFER_8BIT, 16: Capability.STORAGE_BUFFER_16BIT}
_FLOATS = {16: "<e", 32: "<f", 64: "<d"}


@dataclass(frozen=True)
class ScalarKind:
    """The type of a scalar.

    Attributes:
        code: `bool`, `int`, `uint` or `float`.
        bits: of it; those of a bool are those it has in a buffer.
    """

    code: str
    bits: int

    @property
    def is_integer(self) -> bool:
        """Whether it is a number without a fraction."""
        return self.code in ("int", "uint")

    @property
    def stored(self) -> "ScalarKind":
        """Returns the kind in a buffer: a bool has no size there, so it is stored as a byte."""
        return UINT8 if self.code == "bool" else self


BOOL, UINT8 = ScalarKind("bool", 8), ScalarKind("uint", 8)
INT32, UINT32 = ScalarKind("int", 32), ScalarKind("uint", 32)
FLOAT16, FLOAT32 = ScalarKind("float", 16), ScalarKind("float", 32)


@functools.cache
def parse(dtype: str) -> tuple[ScalarKind, int]:
    """Kind and lanes of a dtype such as `float32x4`.

    Raises:
        ValueError: kernels of GPUs have no such type.
    """
    match = re.fullmatch(r"(bool|int|uint|float)(8|16|32|64)?(?:x(\d+))?", dtype)
    if match is None or (match[1] != "bool" and match[2] is None) or dtype.startswith("float8"):
        raise ValueError(f"{dtype} is not a type of a GPU's kernels")
    return ScalarKind(match[1], int(match[2] or 8)), int(match[3] or 1)


class Types:
    """The types of one module."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._scalars: dict[ScalarKind, int] = {}

    def scalar(self, kind: ScalarKind) -> int:
        """The id of a scalar's type."""
        found = self._scalars.get(kind)
        if found is None:
            found = self._scalars[kind] = self._declared(kind)
        return found

    def computed(self, kind: ScalarKind) -> int:
        """The id of the type of a value that is computed, not only loaded, converted and stored."""
        needed = _ARITHMETIC.get(_family(kind))
        if needed is not None:
            self._module.capabilities.add(needed)
        return self.scalar(kind)

    def pointer(self, storage: StorageClass, to: int) -> int:
        """The id of a pointer's type."""
        return self._module.type(Op.TYPE_POINTER, storage, to)

    def vector(self, kind: ScalarKind, lanes: int) -> int:
        """The id of a vector's type."""
        return self._module.type(Op.TYPE_VECTOR, self.scalar(kind), lanes)

    def array(self, kind: ScalarKind, length: int) -> int:
        """The id of the type of an array in private or shared memory."""
        size = self.constant(UINT32, length)
        return self._module.type(Op.TYPE_ARRAY, self.computed(kind), size)

    def vectors(self, kind: ScalarKind, lanes: int, length: int) -> int:
        """The id of the type of an array of vectors in private or shared memory."""
        size = self.constant(UINT32, length)
        self.computed(kind)
        return self._module.type(Op.TYPE_ARRAY, self.vector(kind, lanes), size)

    def image_of_floats(self) -> int:
        """The id of the type of a buffer of floats that is read as an image."""
        self._module.capabilities.add(Capability.SAMPLED_BUFFER)
        of = self.scalar(FLOAT32)
        return self._module.type(Op.TYPE_IMAGE, of, BUFFER_IMAGE, 0, 0, 0, FETCHED, UNKNOWN_FORMAT)

    def in_buffer(self, kind: ScalarKind) -> None:
        """Requires the capability to hold the kind in a buffer."""
        if kind.bits in _IN_BUFFERS:
            self._module.capabilities.add(_IN_BUFFERS[kind.bits])

    def constant(self, kind: ScalarKind, value: float) -> int:
        """The id of a constant; one too large for a float is infinite."""
        of = self.computed(kind)
        if kind.code == "bool":
            return self._module.constant(Op.CONSTANT_TRUE if value else Op.CONSTANT_FALSE, of)
        return self._module.constant(Op.CONSTANT, of, *_words(kind, value))

    def _declared(self, kind: ScalarKind) -> int:
        if kind.code == "bool":
            return self._module.type(Op.TYPE_BOOL)
        if kind.bits == 64:
            self._module.capabilities.add(_ARITHMETIC[_family(kind)])
        if kind.code == "float":
            return self._module.type(Op.TYPE_FLOAT, kind.bits)
        return self._module.type(Op.TYPE_INT, kind.bits, int(kind.code == "int"))


def _family(kind: ScalarKind) -> tuple[str, int]:
    return ("int" if kind.is_integer else kind.code), kind.bits


def _words(kind: ScalarKind, value: float) -> tuple[int, ...]:
    """The words of a number: little endian, sign-extended to a word."""
    if kind.code == "float":
        try:
            data = struct.pack(_FLOATS[kind.bits], value)
        except OverflowError:
            data = struct.pack(_FLOATS[kind.bits], float("inf" if value > 0 else "-inf"))
        data += b"\0" * (-len(data) % 4)
    else:
        size = max(kind.bits, 32)
        whole = int(value) & ((1 << kind.bits) - 1)
        if kind.code == "int" and whole >> (kind.bits - 1):
            whole -= 1 << kind.bits
        data = (whole & ((1 << size) - 1)).to_bytes(size // 8, "little")
    return struct.unpack(f"<{len(data) // 4}I", data)
