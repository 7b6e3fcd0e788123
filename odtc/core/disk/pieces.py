"""A file in pieces: what is in other files already is named, not kept twice.

The weights of an artifact are those of the model's file, and there is no use in a copy of them for
each step that was compiled of it.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_BLOCK = 1 << 20


@dataclass(frozen=True)
class Piece:
    """Bytes of a file.

    Attributes:
        file: that has them, by its name in a folder; "" for the content that comes with the pieces.
        offset: of the first of them.
        size: how many.
    """

    file: str
    offset: int
    size: int


def cut(path: Path, known: Iterable[tuple[int, Piece]], folder: Path) -> tuple[list[Piece], bytes]:
    """A file as pieces, and the content of those that no other file has.

    Args:
        path: of the file.
        known: what may lie in another file, by its offset in this one; what does not is left out.
        folder: of the other files.

    Raises:
        OSError: a file cannot be read.
    """
    pieces: list[Piece] = []
    content = bytearray()
    with _Files(folder) as files, path.open("rb") as file:
        end = os.fstat(file.fileno()).st_size

        def keep(until: int) -> None:
            size = until - file.tell()
            if size:
                pieces.append(Piece("", len(content), size))
                content.extend(file.read(size))

        for offset, piece in sorted(known, key=lambda each: each[0]):
            keep(offset)
            if all(part and part == file.read(len(part)) for part in files.parts(piece)):
                pieces.append(piece)
            else:
                file.seek(offset)
                keep(offset + piece.size)
        keep(end)
    return pieces, bytes(content)


def join(path: Path, pieces: Sequence[Piece], content: bytes, folder: Path) -> None:
    """Writes a file that was cut.

    Args:
        path: of the file.
        pieces: of it.
        content: of those that no other file has.
        folder: of the other files.

    Raises:
        OSError: one of them cannot be read, or the file cannot be written.
    """
    with _Files(folder) as files, path.open("wb") as file:
        for piece in pieces:
            if piece.file:
                file.writelines(files.parts(piece))
            else:
                file.write(content[piece.offset : piece.offset + piece.size])


class _Files:
    """Files of a folder, each opened once; not mapped, as one that is cut short ends a process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.opened: dict[str, BinaryIO] = {}
        self.stack = ExitStack()

    def __enter__(self) -> "_Files":
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def parts(self, piece: Piece) -> Iterator[bytes]:
        """The bytes of a piece, some at a time; the last part is b"" where the file ends before."""
        if piece.file not in self.opened:
            opened = self.stack.enter_context((self.folder / piece.file).open("rb"))
            self.opened[piece.file] = opened
        file, left = self.opened[piece.file], piece.size
        file.seek(piece.offset)
        while left:
            part = file.read(min(_BLOCK, left))
            left = left - len(part) if part else 0
            yield part
