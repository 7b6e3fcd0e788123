"""An object file of a kernel in ELF: how large it is at work, and the helpers that it brings.

TVM puts functions beside a kernel that convert float16 where a CPU cannot. They are weak: of those
of all kernels the linker takes one, compiled for whichever CPU. So in a library with kernels for
several CPUs the helpers of each have names of their own, or an older CPU would run a newer one's.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

# Of the ELF specification, for 64 bits and little endian.
_MAGIC = b"\x7fELF\2\1"
_SECTIONS_AT, _SHAPE_AT = 40, 58
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMBOLS, _NO_BITS, _ALLOCATED = 2, 8, 2
_WEAK_FUNCTION = 2 << 4 | 2


@dataclass(frozen=True)
class _Section:
    """A section: its kind and flags, where it lies, its size, and one that it refers to."""

    kind: int
    flags: int
    at: int
    size: int
    link: int


def loaded_bytes(content: bytes) -> int:
    """Bytes of an object file that a process has: code, and tables beside it.

    All of a file of another format than ELF is counted, as archives hold it.
    """
    if not content.startswith(_MAGIC):
        return len(content)
    kept = (each for each in _sections(content) if each.flags & _ALLOCATED)
    return sum(each.size for each in kept if each.kind != _NO_BITS)


def with_own_helpers(content: bytes, number: int) -> bytes:
    """An object file whose weak functions have names that those of no other number have.

    Their last letter is another one; a file of another format than ELF is left as it is: what links
    such files gives each symbol a name of its own (`odtc.backends.objects.mach_o`).

    Args:
        content: of the file.
        number: of the CPU that it is compiled for, among those of its library.

    Raises:
        ValueError: such a name is part of another one in the file.
    """
    if not content.startswith(_MAGIC):
        return content
    edited = bytearray(content)
    for name in _weak_functions(content):
        end = content.index(b"\0", name)
        if content[name - 1]:
            raise ValueError(f"the name of {content[name:end].decode()} is part of another one")
        edited[end - 1] = ord("A") + number
    return bytes(edited)


def _sections(content: bytes) -> list[_Section]:
    (at,) = struct.unpack_from("<Q", content, _SECTIONS_AT)
    size, count = struct.unpack_from("<HH", content, _SHAPE_AT)
    read = (_SECTION.unpack_from(content, at + n * size) for n in range(count))
    return [_Section(kind, flags, at, size, link) for _, kind, flags, _, at, size, link, *_ in read]


def _weak_functions(content: bytes) -> Iterator[int]:
    """Where the names of the weak functions of a file lie in it."""
    sections = _sections(content)
    for table in (each for each in sections if each.kind == _SYMBOLS):
        strings = sections[table.link].at
        for at in range(table.at, table.at + table.size, _SYMBOL.size):
            name, info, _, section, *_ = _SYMBOL.unpack_from(content, at)
            if info == _WEAK_FUNCTION and section:
                yield strings + name
