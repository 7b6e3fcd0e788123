"""Symbols of Mach-O object files: which there are, and other names for them.

An app has kernels of several models, and each of their object files has symbols that the others
have, too. So before they are linked into it each symbol gets a name of its own.
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

# Of Apple's mach-o/loader.h and mach-o/nlist.h, for 64 bits and little endian.
_HEADER = struct.Struct("<IIIIIIII")
_COMMAND = struct.Struct("<II")
_SYMBOL_TABLE = struct.Struct("<IIIIII")
_SYMBOL = struct.Struct("<IBBHQ")
_MAGIC, _ARM64, _OBJECT = 0xFEEDFACF, 0x0100000C, 1
_SYMTAB = 2
# Bits of a symbol's type: for debuggers, for this image alone, where it is, external.
_STAB, _PRIVATE, _TYPE, _EXTERNAL = 0xE0, 0x10, 0x0E, 0x01
_UNDEFINED = 0


@dataclass(frozen=True)
class Symbol:
    """An external symbol of an object file.

    Attributes:
        name: without the underscore that each has in front.
        is_defined: whether this file has it.
        at: of its entry in the file.
    """

    name: str
    is_defined: bool
    at: int


def symbols_of(data: bytes) -> list[Symbol]:
    """The external symbols of an object file for 64-bit ARM.

    Raises:
        ValueError: it is none.
    """
    return list(_symbols(data, _table(data)[1:]))


def renamed(data: bytes, rename: Callable[[str], str]) -> bytes:
    """An object file whose own external symbols have other names, and are seen in one image alone.

    Args:
        data: the object file.
        rename: from a name to another, both without the underscore in front.

    Raises:
        ValueError: it is no object file for 64-bit ARM, or its strings are not its end.
    """
    command, at, count, strings, size = _table(data)
    data, rest = data[: strings + size], data[strings + size :]
    # An archive fills its members up.
    if rest.strip(b"\n"):
        raise ValueError("the strings of the object file are not at its end")
    changed, added = bytearray(data), bytearray()
    for symbol in _symbols(data, (at, count, strings, size)):
        if symbol.is_defined:
            _, kind, *rest = _SYMBOL.unpack_from(data, symbol.at)
            place = size + len(added)
            _SYMBOL.pack_into(changed, symbol.at, place, kind | _PRIVATE, *rest)
            added += f"_{rename(symbol.name)}\0".encode()
    added += bytes(-(len(data) + len(added)) % 8)
    _SYMBOL_TABLE.pack_into(
        changed, command, _SYMTAB, _SYMBOL_TABLE.size, at, count, strings, size + len(added)
    )
    return bytes(changed + added)


def _table(data: bytes) -> tuple[int, int, int, int, int]:
    """Where the command of the symbol table is, the table with its count, and its strings."""
    try:
        magic, cpu, _, kind, commands, *_ = _HEADER.unpack_from(data)
        if (magic, cpu, kind) != (_MAGIC, _ARM64, _OBJECT):
            raise ValueError("it is not a Mach-O object file for 64-bit ARM")
        at = _HEADER.size
        for _ in range(commands):
            command, size = _COMMAND.unpack_from(data, at)
            if command == _SYMTAB:
                return at, *_SYMBOL_TABLE.unpack_from(data, at)[2:]
            at += size
    except struct.error as error:
        raise ValueError("the object file is cut short") from error
    raise ValueError("the object file has no symbols")


def _symbols(data: bytes, table: tuple[int, int, int, int]) -> Iterator[Symbol]:
    start, count, strings, size = table
    if max(start + count * _SYMBOL.size, strings + size) > len(data):
        raise ValueError("the object file is cut short")
    for at in range(start, start + count * _SYMBOL.size, _SYMBOL.size):
        place, kind, *_ = _SYMBOL.unpack_from(data, at)
        if kind & _STAB or not kind & _EXTERNAL:
            continue
        end = data.index(b"\0", strings + place)
        name = data[strings + place : end].decode().removeprefix("_")
        yield Symbol(name, kind & _TYPE != _UNDEFINED, at)
