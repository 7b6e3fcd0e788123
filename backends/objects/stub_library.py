"""A shared library without code, as a file: names for a linker, or another name of a library.

A linker needs a library only to learn what it is called and which symbols it has. A loader takes
the same file for a library that brings what the ones that it needs have: so a system that calls its
C library otherwise can have it under the name that was linked with.
"""

import struct
from collections.abc import Iterable, Sequence

# Of the ELF specification, for 64 bits and little endian.
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_ENTRY = struct.Struct("<QQ")
_MAGIC = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
_SHARED, _VERSION = 3, 1
_MACHINES = {"x86_64": 62, "aarch64": 183}
# Kinds of segments and sections, tags of the dynamic section.
_LOAD, _DYNAMIC_SEGMENT, _STACK = 1, 2, 0x6474E551
_STRINGS, _HASH, _DYNAMIC, _SYMBOLS = 3, 5, 6, 11
_NEEDED, _SONAME = 1, 14
_TABLES = {"hash": 4, "dynstr": 5, "dynsym": 6}
_STRING_BYTES, _SYMBOL_BYTES = 10, 11
_ALLOCATED = 2
_READ_WRITE = 6
# A global function at an address that is none of a section.
_GLOBAL_FUNCTION, _ABSOLUTE = 0x12, 0xFFF1
_PAGE = 0x10000


def stub_library(
    name: str, machine: str, symbols: Iterable[str] = (), needed: Sequence[str] = ()
) -> bytes:
    """The content of a library.

    Args:
        name: its soname.
        machine: `x86_64` or `aarch64`.
        symbols: functions that it claims to have; none of them may be called.
        needed: sonames of libraries that are loaded with it.
    """
    functions = sorted(symbols)
    strings, places = b"\0", {}
    for each in (name, *needed, *functions):
        places[each] = len(strings)
        strings += each.encode() + b"\0"
    symbol_table = _SYMBOL.pack(0, 0, 0, 0, 0, 0) + b"".join(
        _SYMBOL.pack(places[each], _GLOBAL_FUNCTION, 0, _ABSOLUTE, 0, 0) for each in functions
    )
    content = {
        "dynsym": symbol_table,
        "hash": _hash_table(len(functions)),
        "dynstr": strings,
    }
    at, offsets = _HEADER.size + 3 * _SEGMENT.size, {}
    for part, data in content.items():
        offsets[part] = at
        at += _filled(len(data))
    entries = [(_SONAME, places[name]), *((_NEEDED, places[each]) for each in needed)]
    entries += [(tag, offsets[part]) for part, tag in _TABLES.items()]
    entries += [(_STRING_BYTES, len(strings)), (_SYMBOL_BYTES, _SYMBOL.size), (0, 0)]
    content["dynamic"] = b"".join(_ENTRY.pack(*entry) for entry in entries)
    offsets["dynamic"], end = at, at + len(content["dynamic"])
    names, sections = _sections(content, offsets, end)
    table = end + _filled(len(names))
    head = _HEADER.pack(
        *(_MAGIC, _SHARED, _MACHINES[machine], _VERSION, 0, _HEADER.size, table),
        *(0, _HEADER.size, _SEGMENT.size, 3, _SECTION.size, len(sections), len(sections) - 1),
    )
    size = len(content["dynamic"])
    segments = (
        # Loaders write addresses into the dynamic section.
        _SEGMENT.pack(_LOAD, _READ_WRITE, 0, 0, 0, end, end, _PAGE),
        _SEGMENT.pack(_DYNAMIC_SEGMENT, _READ_WRITE, at, at, at, size, size, 8),
        _SEGMENT.pack(_STACK, _READ_WRITE, 0, 0, 0, 0, 0, 16),
    )
    parts = [head, *segments, *(_padded(data) for data in content.values()), _padded(names)]
    return b"".join([*parts, *sections])


def _hash_table(count: int) -> bytes:
    """A table of one chain, in which all symbols are."""
    chain = [*range(2, count + 1), 0] if count else []
    return struct.pack(f"<{4 + len(chain)}I", 1, count + 1, min(count, 1), 0, *chain)


def _sections(
    content: dict[str, bytes], offsets: dict[str, int], end: int
) -> tuple[bytes, list[bytes]]:
    """Names of sections, and their table: linkers find by it what loaders find by segments."""
    # Kind, the section that it refers to, the first symbol that is global, bytes of an entry.
    kinds = {
        "dynsym": (_SYMBOLS, 3, 1, _SYMBOL.size),
        "hash": (_HASH, 1, 0, 4),
        "dynstr": (_STRINGS, 0, 0, 0),
        "dynamic": (_DYNAMIC, 3, 0, _ENTRY.size),
    }
    names, table = b"\0", [bytes(_SECTION.size)]
    for part, (kind, link, info, width) in kinds.items():
        at = offsets[part]
        where = (_ALLOCATED, at, at, len(content[part]))
        table.append(_SECTION.pack(len(names), kind, *where, link, info, 8, width))
        names += f".{part}\0".encode()
    own = len(names)
    names += b".shstrtab\0"
    table.append(_SECTION.pack(own, _STRINGS, 0, 0, end, len(names), 0, 0, 1, 0))
    return names, table


def _filled(size: int) -> int:
    return (size + 7) // 8 * 8


def _padded(data: bytes) -> bytes:
    return data.ljust(_filled(len(data)), b"\0")
