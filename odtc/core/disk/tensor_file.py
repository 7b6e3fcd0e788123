"""Tensors in a safetensors file, where wanted with hashes that show every change.

    8 bytes: length of the header
    header: JSON; tensor to dtype, shape and place, and `__metadata__`, texts by name
    bytes of the tensors, one behind the other

`hashes` of the metadata has the sha256 of each tensor's bytes, and `sha256` that of all in front of
the tensors, with zeros in its own place: so the header is safe, with it the hashes, and with them
all else. Any other reader of safetensors reads such a file too.

What a file says of its sizes is compared with the size that it has before any of it is believed.
"""

import hashlib
import json
import math
import os
import struct
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np

from odtc.core.disk.mapped_arrays import leave_pages

_DTYPES = {
    **{"BOOL": "bool", "I8": "int8", "U8": "uint8", "I16": "int16", "U16": "uint16"},
    **{"I32": "int32", "U32": "uint32", "I64": "int64", "U64": "uint64"},
    **{"F16": "float16", "F32": "float32", "F64": "float64"},
}
_CODES = {name: code for code, name in _DTYPES.items()}
_LENGTH = struct.Struct("<Q")
# What other readers of safetensors bound it by.
_LONGEST_HEADER = 100_000_000
_MOST_AXES = 32
_METADATA = "__metadata__"
_HASHES, _HASH = "hashes", "sha256"
_NO_HASH = "0" * 64


class DamagedError(Exception):
    """A file is not what was written; the text says what shows it."""


@dataclass(frozen=True)
class Entry:
    """A tensor of a file.

    Attributes:
        dtype: of its elements.
        shape: of it.
        begin: of its bytes, behind the header.
        end: of these.
    """

    dtype: np.dtype
    shape: tuple[int, ...]
    begin: int
    end: int


@dataclass(frozen=True)
class Header:
    """The header of a file.

    Attributes:
        metadata: texts by name, without the hashes.
        entries: its tensors, as they lie in it.
        start: byte at which they begin.
        hashes: of each tensor; None in a file without hashes.
    """

    metadata: Mapping[str, str]
    entries: Mapping[str, Entry]
    start: int
    hashes: Mapping[str, str] | None


def write_tensors(
    path: Path,
    tensors: Mapping[str, np.ndarray],
    metadata: Mapping[str, str] | None = None,
    *,
    hashed: bool = False,
    alignment: int = 1,
) -> None:
    """Writes tensors to a file; the same ones give the same bytes.

    Args:
        path: of the file, which is written over.
        tensors: arrays by name.
        metadata: texts by name.
        hashed: whether the file has hashes.
        alignment: what tensors begin at a multiple of whose bytes are one: they come first. Others
            begin at a multiple of their elements' size.

    Raises:
        OSError: the system could not write it.
    """
    arrays = {name: np.asarray(tensors[name], order="C") for name in _in_order(tensors, alignment)}
    said = dict(metadata or {})
    if hashed:
        found = {name: _hash_of(array) for name, array in arrays.items()}
        said |= {_HASHES: json.dumps(found), _HASH: _NO_HASH}
    head = _header(arrays, said, alignment)
    if hashed:
        head = head.replace(_field(_NO_HASH), _field(hashlib.sha256(head).hexdigest()))
    with open(path, "wb") as file:
        file.write(head)
        for array in arrays.values():
            file.write(_bytes_of(array))
            leave_pages([array])


def read_header(file: BufferedReader) -> Header:
    """Reads and checks the header of a file.

    Raises:
        DamagedError: it is none, does not fit the file, or does not have its hash.
        OSError: the system could not read it.
    """
    size = os.fstat(file.fileno()).st_size
    file.seek(0)
    prefix = file.read(_LENGTH.size)
    if len(prefix) < _LENGTH.size:
        raise DamagedError(f"it has {size} bytes, too few for a header")
    (length,) = _LENGTH.unpack(prefix)
    start = _LENGTH.size + length
    if length > _LONGEST_HEADER or start > size:
        raise DamagedError(f"a header of {length} bytes in a file of {size}")
    raw = file.read(length)
    try:
        data = json.loads(raw)
        metadata = {str(key): _text(value) for key, value in data.pop(_METADATA, {}).items()}
        entries = {name: _entry(item) for name, item in data.items()}
        hashes = {str(k): _text(v) for k, v in json.loads(metadata.pop(_HASHES, "{}")).items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DamagedError("its header cannot be read") from error
    _check_places(entries, size - start)
    own = metadata.pop(_HASH, None)
    if own is None:
        if hashes:
            raise DamagedError("its header has no hash")
        return Header(metadata, entries, start, None)
    if hashlib.sha256((prefix + raw).replace(_field(own), _field(_NO_HASH))).hexdigest() != own:
        raise DamagedError("its header does not match its recorded hash")
    if hashes.keys() != entries.keys():
        raise DamagedError("its header has hashes of other tensors")
    return Header(metadata, entries, start, hashes)


def read_arrays(
    file: BufferedReader, header: Header, names: Collection[str] | None = None
) -> Iterator[tuple[str, np.ndarray]]:
    """Yields the tensors of a file, or those of some names, each with its name and checked.

    Raises:
        DamagedError: one does not have its hash.
        OSError: the system could not read it.
    """
    for name, entry in header.entries.items():
        if names is not None and name not in names:
            continue
        array = np.empty(entry.shape, entry.dtype)
        file.seek(header.start + entry.begin)
        found = file.readinto(_bytes_of(array))
        is_whole = found == entry.end - entry.begin
        wanted = header.hashes[name] if header.hashes else ""
        if not is_whole or (wanted and _hash_of(array) != wanted):
            raise DamagedError(f"tensor {name!r} does not match its recorded hash")
        yield name, array


def check_hashes(path: str | os.PathLike[str], metadata: Mapping[str, str]) -> None:
    """Checks a file that has hashes; one that another program wrote may have none.

    Args:
        path: of the file.
        metadata: of it, as any reader of safetensors gives it.

    Raises:
        DamagedError: it is not what was written.
        OSError: the system could not read it.
    """
    if metadata.keys() & {_HASHES, _HASH}:
        with open(path, "rb") as file:
            for _ in read_arrays(file, read_header(file)):
                pass


def _in_order(tensors: Mapping[str, np.ndarray], alignment: int) -> list[str]:
    """Names in an order in which each tensor is aligned."""

    def rank(name: str) -> tuple[bool, int, str]:
        array = np.asarray(tensors[name])
        return array.nbytes % alignment > 0, -array.dtype.itemsize, name

    return sorted(tensors, key=rank)


def _header(arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str], alignment: int) -> bytes:
    data: dict[str, Any] = {_METADATA: dict(metadata)} if metadata else {}
    begin = 0
    for name, array in arrays.items():
        end = begin + array.nbytes
        code, shape = _CODES[array.dtype.name], list(array.shape)
        data[name] = {"dtype": code, "shape": shape, "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(data, separators=(",", ":")).encode()
    text += b" " * (-(_LENGTH.size + len(text)) % max(alignment, _LENGTH.size))
    return _LENGTH.pack(len(text)) + text


def _field(value: str) -> bytes:
    """The header's own hash as it stands in it."""
    return f'"{_HASH}":"{value}"'.encode()


def _bytes_of(array: np.ndarray) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _hash_of(array: np.ndarray) -> str:
    return hashlib.sha256(_bytes_of(array)).hexdigest()


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _entry(data: Mapping[str, Any]) -> Entry:
    name, shape, (begin, end) = _DTYPES[data["dtype"]], data["shape"], data["data_offsets"]
    numbers = (*shape, begin, end)
    if len(shape) > _MOST_AXES or not all(type(n) is int and 0 <= n < 2**63 for n in numbers):
        raise ValueError("no shape, or no place")
    return Entry(np.dtype(name), tuple(shape), begin, end)


def _check_places(entries: Mapping[str, Entry], room: int) -> None:
    """Checks that the tensors fill the file, and each has the bytes that its shape needs.

    Raises:
        DamagedError: they do not.
    """
    at = 0
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].begin, item[1].end)):
        needed = math.prod(entry.shape) * entry.dtype.itemsize
        if entry.begin != at or entry.end - entry.begin != needed:
            raise DamagedError(f"tensor {name!r} does not fit its place in the file")
        at = entry.end
        if at > room:
            break
    if at != room:
        raise DamagedError(f"{room} bytes behind its header, where the tensors have {at}")
