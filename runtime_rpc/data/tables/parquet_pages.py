"""What the pages of a Parquet file claim to become, before any is decompressed.

A page's header says how many bytes it becomes, up to 2 GiB, and the footer does not repeat it: a
file of some kilobytes may ask for that much. Numbers take at most a few times their own bytes in
each encoding. Headers are structs of Thrift's compact protocol, which pyarrow does not show.
"""

from collections.abc import Collection
from pathlib import Path
from typing import IO, TYPE_CHECKING

from odtc.core.errors import DataError

if TYPE_CHECKING:
    from pyarrow.parquet import ColumnChunkMetaData as Chunk
    from pyarrow.parquet import FileMetaData

# Of the widest number, with room for its place in a dictionary and for levels; and of a page.
_BYTES_A_VALUE, _BYTES_MORE = 32, 1 << 20
# A header with the statistics of its page is some hundred bytes.
_HEADER = 1 << 16
_SIZE, _COMPRESSED = 2, 3
_STOP, _TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _STRUCT = 0, 1, 2, 3, 7, 8, 12
_INTEGERS = (4, 5, 6)
_LISTS = (9, 10)
_DEEPEST = 8


def chunks_of(metadata: "FileMetaData", columns: Collection[str]) -> dict[str, list["Chunk"]]:
    """What a file has of each column; of one of lists it is what is in these."""
    found: dict[str, list[Chunk]] = {name: [] for name in columns}
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for number in range(row_group.num_columns):
            chunk = row_group.column(number)
            for name, held in found.items():
                if chunk.path_in_schema == name or chunk.path_in_schema.startswith(f"{name}."):
                    held.append(chunk)
    return found


def check_pages(path: Path, metadata: "FileMetaData", columns: Collection[str]) -> None:
    """Checks what the pages of columns of numbers claim.

    Raises:
        DataError: one claims more than its numbers can take, or the headers are damaged.
    """
    with open(path, "rb") as file:
        for chunks in chunks_of(metadata, columns).values():
            for chunk in chunks:
                _check_chunk(path, file, chunk)


def _check_chunk(path: Path, file: IO[bytes], chunk: "Chunk") -> None:
    most = chunk.num_values * _BYTES_A_VALUE + _BYTES_MORE
    # A dictionary comes first; without one its offset is missing, or 0.
    at = chunk.dictionary_page_offset or chunk.data_page_offset
    end = at + chunk.total_compressed_size
    while at < end:
        file.seek(at)
        try:
            length, size, compressed = _header(file.read(_HEADER))
        except (IndexError, ValueError) as error:
            raise DataError(
                f"not a readable Parquet file (the header of a page of the column "
                f"{chunk.path_in_schema!r} is damaged)",
                where=str(path),
                hint="write the file again",
            ) from error
        if size > most:
            raise DataError(
                f"a page of the column {chunk.path_in_schema!r} claims {size} bytes; its "
                f"{chunk.num_values} numbers take at most {most}",
                where=str(path),
                hint="the file is damaged: write it again",
            )
        at += length + compressed


def _header(data: bytes) -> tuple[int, int, int]:
    """Bytes of a page's header, of the page, and of what it is compressed to.

    Raises:
        IndexError: it is longer than what there is.
        ValueError: it is no such header.
    """
    reader = _Reader(data)
    found = reader.struct(0)
    size, compressed = found.get(_SIZE, -1), found.get(_COMPRESSED, -1)
    if size < 0 or compressed < 0:
        raise ValueError("sizes are missing")
    return reader.at, size, compressed


class _Reader:
    """Reads the integers of a struct, and goes over all else."""

    def __init__(self, data: bytes) -> None:
        self._data, self.at = data, 0

    def struct(self, depth: int) -> dict[int, int]:
        if depth > _DEEPEST:
            raise ValueError("too deep")
        found, field = {}, 0
        while (head := self._byte()) & 0xF != _STOP:
            # The field's number is that of the one before and a difference, or is written out.
            field = field + (head >> 4) if head >> 4 else self._zigzag()
            value = self._value(head & 0xF, depth)
            if value is not None:
                found[field] = value
        return found

    def _value(self, kind: int, depth: int) -> int | None:
        if kind in _INTEGERS:
            return self._zigzag()
        if kind == _STRUCT:
            self.struct(depth + 1)
        elif kind in _LISTS:
            head = self._byte()
            count = head >> 4 if head >> 4 < 0xF else self._varint()
            for _ in range(count):
                # Booleans of a list take a byte each.
                self._value(_BYTE if head & 0xF in (_TRUE, _FALSE) else head & 0xF, depth + 1)
        elif kind not in (_TRUE, _FALSE):
            sizes = {_BYTE: 1, _DOUBLE: 8}
            if kind not in (*sizes, _BINARY):
                raise ValueError(f"kind {kind}")
            # Reading the length moves on, too.
            length = sizes.get(kind) or self._varint()
            self.at += length
        return None

    def _byte(self) -> int:
        value = self._data[self.at]
        self.at += 1
        return value

    def _varint(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
            if shift > 63:
                raise ValueError("an integer of more than 64 bits")
        return value | byte << shift

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
