"""Static libraries: archives of object files, as Apple's linker takes them.

Each member begins at a multiple of eight bytes, up to which one is filled with line ends, and a
table says which member has which symbol: that linker takes no archive without one.
"""

import struct
from collections.abc import Mapping, Sequence

MAGIC = b"!<arch>\n"

_TABLE = "__.SYMDEF"
_HEAD = struct.Struct("16s12s6s6s8s10s2s")
_END = b"`\n"
# Names are in front of the content; this says how long one is.
_LONG = b"#1/"
_ALIGNMENT = 8
_NUMBER = struct.Struct("<I")
_PLACE = struct.Struct("<II")


def static_library(
    members: Mapping[str, bytes], symbols: Mapping[str, Sequence[str]] | None = None
) -> bytes:
    """The content of an archive.

    Args:
        members: content by name, in their order.
        symbols: those that each of some members has; without any there is no table.
    """
    if symbols is None:
        return MAGIC + b"".join(_member(name, members[name]) for name in members)
    of = [(symbol, name) for name in members for symbol in symbols.get(name, ())]
    # Its length does not depend on what is in it.
    at, places = len(MAGIC) + len(_member(_TABLE, _table(of, dict.fromkeys(members, 0)))), {}
    for name, content in members.items():
        places[name] = at
        at += len(_member(name, content))
    return MAGIC + b"".join(
        _member(name, content) for name, content in {_TABLE: _table(of, places), **members}.items()
    )


def members_of(data: bytes) -> dict[str, bytes]:
    """Content of each member by its name, but for a table of symbols.

    Raises:
        ValueError: it is no whole archive.
    """
    if data[: len(MAGIC)] != MAGIC:
        raise ValueError("it is not an archive")
    found, at = {}, len(MAGIC)
    while at < len(data):
        if at + _HEAD.size > len(data):
            raise ValueError("a member's head is cut short")
        name, *_, size, end = _HEAD.unpack_from(data, at)
        if end != _END or not name.startswith(_LONG):
            raise ValueError("a member's head cannot be read")
        start, long = at + _HEAD.size, _natural(name[len(_LONG) :])
        at = start + _natural(size)
        if at > len(data) or start + long > at:
            raise ValueError(f"a member ends at {at:,} of {len(data):,} bytes")
        found[data[start : start + long].rstrip(b"\0").decode()] = data[start + long : at]
    return {name: content for name, content in found.items() if name != _TABLE}


def _member(name: str, content: bytes) -> bytes:
    long = -(-(_HEAD.size + len(name)) // _ALIGNMENT) * _ALIGNMENT - _HEAD.size
    filled = content.ljust(-(-len(content) // _ALIGNMENT) * _ALIGNMENT, b"\n")
    head = (_LONG + str(long).encode(), b"0", b"0", b"0", b"644", str(long + len(filled)).encode())
    widths = (16, 12, 6, 6, 8, 10)
    texts = (text.ljust(width) for text, width in zip(head, widths, strict=True))
    return _HEAD.pack(*texts, _END) + name.encode().ljust(long, b"\0") + filled


def _table(of: Sequence[tuple[str, str]], places: Mapping[str, int]) -> bytes:
    strings, rows = b"", b""
    for symbol, name in of:
        rows += _PLACE.pack(len(strings), places[name])
        strings += symbol.encode() + b"\0"
    strings = strings.ljust(-(-len(strings) // _ALIGNMENT) * _ALIGNMENT, b"\0")
    return _NUMBER.pack(len(rows)) + rows + _NUMBER.pack(len(strings)) + strings


def _natural(text: bytes) -> int:
    stripped = text.strip()
    if not stripped.isdigit():
        raise ValueError(f"{stripped!r} is not a number of bytes")
    return int(stripped)
