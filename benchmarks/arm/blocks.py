"""What `count.c` wrote: blocks of code, how often each ran, and what it missed in caches."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LINE_BYTES = 64
_FORMAT = struct.Struct("<10Q")


@dataclass(frozen=True)
class Block:
    """A block of code that was translated as one, and what it did between two marks.

    Attributes:
        address: in the emulated process.
        runs: how often it ran.
        loaded: bytes that its loads asked for.
        stored: bytes that its stores wrote.
        missed: lines that each level of caches did not have.
        walks: accesses whose page no buffer of translations had.
        written_back: lines that went from the last level to memory.
        code: its instructions.
    """

    address: int
    runs: int
    loaded: int
    stored: int
    missed: tuple[int, int, int]
    walks: int
    written_back: int
    code: tuple[int, ...]


@dataclass(frozen=True)
class Mapping:
    """A line of a process's memory map that has a file.

    Attributes:
        begin: its first address.
        end: the address behind it.
        offset: of its first byte in the file.
        path: of the file.
    """

    begin: int
    end: int
    offset: int
    path: Path


def read_blocks(path: Path) -> Iterator[Block]:
    """The blocks of a file."""
    content, at = path.read_bytes(), 0
    while at < len(content):
        address, count, runs, loaded, stored, walks, *missed, written = _FORMAT.unpack_from(
            content, at
        )
        at += _FORMAT.size
        code = struct.unpack_from(f"<{count}I", content, at)
        at += 4 * count
        first, second, third = missed
        yield Block(address, runs, loaded, stored, (first, second, third), walks, written, code)


def read_mappings(path: Path) -> list[Mapping]:
    """Those of a copy of `/proc/PID/maps` that have a file, in the order of their addresses."""
    found = []
    for line in path.read_text().splitlines():
        addresses, _, offset, _, _, *name = line.split(maxsplit=5)
        if name and name[0].startswith("/"):
            begin, end = (int(each, 16) for each in addresses.split("-"))
            found.append(Mapping(begin, end, int(offset, 16), Path(name[0])))
    return sorted(found, key=lambda each: each.begin)
