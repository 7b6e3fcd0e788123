"""A compiled library as a file: whether all of it is there, and what it is bound to.

The system maps the segments of a library into memory and reads them when they are used: what lies
after the end of the file ends the process then (SIGBUS), so it is looked for before. The build id
is where a library says which artifact it belongs to; see `odtc.core.artifact.identity`. An archive
of object files, which nothing loads, says it in a member of its own.
"""

import mmap
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

from odtc.core.artifact.static_library import MAGIC, members_of

# Of the ELF specification, for 64 bits and little endian, as all targets are.
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_NOTE = struct.Struct("<III")
_MAGIC = b"\x7fELF\x02\x01"
_LOAD, _NOTES = 1, 4
_OWNER, _BUILD_ID = b"GNU\0", 3

IDENTITY = "build-id"
"""The member of an archive that says it, in hex."""


def build_id(path: Path) -> str:
    """The build id of a library all of whose segments are in its file, or of an archive, in hex.

    Raises:
        ValueError: it is no such library, or not whole, or has none.
    """
    if path.stat().st_size < _HEADER.size:
        raise ValueError("it is not a library")
    with path.open("rb") as opened:
        is_archive = opened.read(len(MAGIC)) == MAGIC
    if is_archive:
        return _identity_in(members_of(path.read_bytes()))
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        found = None
        for kind, offset, size in _segments(data):
            if offset + size > len(data):
                raise ValueError(f"a segment ends at {offset + size:,} of {len(data):,} bytes")
            if kind == _NOTES and found is None:
                found = _build_id_in(data[offset : offset + size])
    if found is None:
        raise ValueError("it has no build id")
    return found


def _identity_in(members: Mapping[str, bytes]) -> str:
    if IDENTITY not in members:
        raise ValueError("it has no build id")
    return bytes.fromhex(members[IDENTITY].decode()).hex()


def _segments(data: mmap.mmap) -> Iterator[tuple[int, int, int]]:
    """Kind, offset and size in the file of each segment."""
    # After the segments lies the table of sections, at the end of the file.
    ident, *_, at, sections, _, _, width, count, section, many, _ = _HEADER.unpack_from(data)
    if not ident.startswith(_MAGIC) or (count and width != _SEGMENT.size):
        raise ValueError("it is not a library of 64 bits")
    if max(at + count * width, sections + many * section) > len(data):
        raise ValueError("its tables of segments and sections are after its end")
    loaded = 0
    for number in range(count):
        kind, _, offset, _, _, size, _, _ = _SEGMENT.unpack_from(data, at + number * width)
        loaded += kind == _LOAD
        yield kind, offset, size
    if not loaded:
        raise ValueError("it has no segments")


def _build_id_in(notes: bytes) -> str | None:
    at = 0
    while at + _NOTE.size <= len(notes):
        name, size, kind = _NOTE.unpack_from(notes, at)
        at += _NOTE.size
        owner, at = notes[at : at + name], at + (name + 3) // 4 * 4
        held, at = notes[at : at + size], at + (size + 3) // 4 * 4
        if owner == _OWNER and kind == _BUILD_ID and len(held) == size:
            return held.hex()
    return None
