"""Reads an ONNX file whose large float tensors stay in the file until somebody asks for one.

Protobuf holds the file's bytes beside the message that it makes of them, and gives a copy of what
it holds: of weights there would be three. Here they are copied once, into a file of which memory
holds what is looked at (`odtc.core.disk.mapped_arrays`). Such a tensor has the form of ONNX's
external data, with the absolute path of a file.
"""

import math
import mmap
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import (
    load_external_data_for_model,
    load_external_data_for_tensor,
)

from odtc.core.disk.mapped_arrays import Copies, leave_pages
from odtc.core.onnx_model.weight_places import FLOATS
from odtc.core.onnx_model.wire import BYTES, field_head
from odtc.frontend.file.external_claims import external_tensors, require_claims

# What reading a model may raise: `elements_in_files`, as `onnx.load`.
UNREADABLE = (DecodeError, KeyError, OSError, ValueError)

# What is smaller may well be in memory three times.
_LARGE_FILE, _LARGE_TENSOR = 16 << 20, 1 << 16
# A message of protobuf is smaller; a file of holes may have any size.
_MOST_BYTES = 1 << 31
# Numbers of fields in ONNX's messages, and types of fields in protobuf's encoding.
_GRAPH, _INITIALIZER = 7, 5
_DATA_TYPE, _SEGMENT, _RAW_DATA, _DATA_LOCATION = 2, 3, 9, 14
_NUMBER, _EIGHT_BYTES, _FOUR_BYTES = 0, 1, 5

# The number of a field, its type, and where it, and what it holds, begin and end.
Field = tuple[int, int, int, int, int]


def read_in_file(path: Path) -> onnx.ModelProto:
    """The model with its large float initializers left in the file, or in those of external data.

    Raises:
        DecodeError, OSError, ValueError, ValidationError: as of `onnx.load`.
        ModelError: a tensor claims too much.
    """
    path = path.absolute()
    model = _without_data(path)
    require_claims(model, path)
    places = {
        number: _place_of(tensor, path)
        for number, tensor in enumerate(model.graph.initializer)
        if _is_in_file(tensor) and tensor.data_type in FLOATS
    }
    tensors = {number: model.graph.initializer[number] for number in places}
    for tensor in tensors.values():
        tensor.ClearField("data_location")
        tensor.ClearField("external_data")
    load_external_data_for_model(model, os.fspath(path.parent))
    for number, tensor in tensors.items():
        tensor.MergeFrom(places[number])
    return model


@dataclass(frozen=True)
class Elements:
    """Where the elements of a tensor lie.

    Attributes:
        tensor: its name.
        path: of the file.
        offset: of the first byte.
        size: in bytes.
    """

    tensor: str
    path: Path
    offset: int
    size: int


def elements_in_files(path: Path) -> Iterator[Elements]:
    """All tensors of a model whose elements lie in files beside its own, and large ones of it.

    Raises:
        DecodeError, OSError, ValueError: as of `onnx.load`.
        KeyError: a tensor does not say in which file.
    """
    path = path.absolute()
    for tensor in external_tensors(_without_data(path)):
        where = {entry.key: entry.value for entry in tensor.external_data}
        file, offset = path.parent / where["location"], int(where.get("offset", 0))
        size = int(where.get("length", file.stat().st_size - offset))
        yield Elements(tensor.name, file, offset, size)


def data_files(path: Path) -> set[Path]:
    """Files in which elements of a model lie; none of one that cannot be read."""
    try:
        return {each.path for each in elements_in_files(path)}
    except UNREADABLE:
        return set()


def require_size(path: Path) -> None:
    """Checks that a file is not larger than a model can be, before it is read.

    Raises:
        ValueError: it is.
    """
    size = path.stat().st_size
    if size >= _MOST_BYTES:
        raise ValueError(f"it has {size:,} bytes; a model has less than 2 GiB of its own")


def _without_data(path: Path) -> onnx.ModelProto:
    """The model without data of other files, and a large one without those of large tensors."""
    require_size(path)
    is_large = sys.byteorder == "little" and path.stat().st_size >= _LARGE_FILE
    model = _without_elements(path) if is_large else None
    return model or onnx.load(path, format="protobuf", load_external_data=False)


def add_copy(copies: Copies, name: str, tensor: TensorProto) -> None:
    """Copies the elements of a tensor whose elements are in a file, and many of another one.

    Raises:
        KeyError, OSError, TypeError, ValueError: they are damaged, or not there.
    """
    if not _is_in_file(tensor):
        if math.prod(tensor.dims) >= _LARGE_TENSOR:
            copies.put(name, numpy_helper.to_array(tensor))
    else:
        where = {entry.key: entry.value for entry in tensor.external_data}
        copies.add(name, Path(where["location"]), int(where["offset"]), int(where["length"]))


def array_of(tensor: TensorProto, raw: np.ndarray | None = None) -> np.ndarray:
    """The elements of a tensor, wherever they are.

    Args:
        tensor: as `read_in_file` read it.
        raw: its elements as bytes, where somebody has them already.

    Raises:
        KeyError, TypeError, ValueError: they are damaged, as of `numpy_helper.to_array`.
    """
    if raw is None and not _is_in_file(tensor):
        return numpy_helper.to_array(tensor)
    if raw is None:
        where = {entry.key: entry.value for entry in tensor.external_data}
        length, offset = int(where["length"]), int(where["offset"])
        raw = np.fromfile(where["location"], np.uint8, length, offset=offset)
        raw.flags.writeable = False
    dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
    return np.frombuffer(raw, dtype).reshape(tensor.dims)


def put_into(model: onnx.ModelProto, arrays: Mapping[str, np.ndarray]) -> None:
    """Puts elements that were left in files into the model, in place.

    Args:
        model: as `read_in_file` read it.
        arrays: what was read of its tensors, by name; the file may have changed since.
    """
    for tensor in model.graph.initializer:
        if _is_in_file(tensor):
            tensor.ClearField("data_location")
            tensor.ClearField("external_data")
            tensor.raw_data = arrays[tensor.name].tobytes()


def bytes_of(tensor: TensorProto) -> int:
    """The bytes of a tensor in a file that holds its elements."""
    where = {entry.key: entry.value for entry in tensor.external_data}
    return tensor.ByteSize() + (int(where["length"]) if _is_in_file(tensor) else 0)


def _is_in_file(tensor: TensorProto) -> bool:
    return tensor.data_location == TensorProto.EXTERNAL


def _without_elements(path: Path) -> onnx.ModelProto | None:
    """None where the file is damaged, or its graph in pieces: who reads it as a whole says so."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            return onnx.ModelProto.FromString(_skeleton(data, os.fspath(path)))
        except (DecodeError, IndexError, ValueError):
            return None


def _place_of(tensor: TensorProto, path: Path) -> TensorProto:
    """Where the elements of a tensor are: in the file at this path, or in one that it names.

    Raises:
        OSError, ValueError, ValidationError: they are not there, or nowhere that ONNX allows.
    """
    where = {entry.key: entry.value for entry in tensor.external_data}
    if where.get("location") == os.fspath(path):
        return _external(where, tensor.name)
    # ONNX checks the place of nothing as that of everything.
    folder, nothing = os.fspath(path.parent), _external(where | {"length": "0"}, tensor.name)
    load_external_data_for_tensor(nothing, folder)
    location = path.parent / where["location"]
    offset = int(where.get("offset", 0))
    most = location.stat().st_size - offset
    length = int(where.get("length", most))
    if not 0 <= length <= most:
        load_external_data_for_tensor(_external(where, tensor.name), folder)
    return _place(os.fspath(location), offset, length, tensor.name)


def _skeleton(data: mmap.mmap, path: str) -> bytes:
    """The encoded model, with places in place of the elements of large tensors.

    Raises:
        IndexError, ValueError: it is damaged, or its graph is in pieces.
    """
    fields = list(_fields(data, 0, len(data)))
    (graph,) = [field for field in fields if field[0] == _GRAPH]
    parts = [data[begin:end] for number, _, begin, _, end in fields if number != _GRAPH]
    inner = b"".join(_graph_parts(data, graph, path))
    return b"".join([*parts, _framed(_GRAPH, inner)])


def _graph_parts(data: mmap.mmap, graph: Field, path: str) -> Iterator[bytes]:
    for number, type_, begin, held, end in _fields(data, graph[3], graph[4]):
        if number == _INITIALIZER and type_ == BYTES and end - held >= _LARGE_TENSOR:
            yield _framed(_INITIALIZER, _tensor(data, held, end, path))
            # Systems map more than the page that is read, up to some megabytes around it.
            leave_pages([np.frombuffer(data, np.uint8, end - begin, begin)])
        else:
            yield data[begin:end]


def _tensor(data: mmap.mmap, begin: int, end: int, path: str) -> bytes:
    """An encoded tensor; one of floats says where its elements are."""
    fields = list(_fields(data, begin, end))
    numbers = [number for number, *_ in fields]
    raw = [field for field in fields if field[0] == _RAW_DATA]
    types = [data[held] for number, _, _, held, _ in fields if number == _DATA_TYPE]
    is_plain = len(raw) == len(types) == 1 and not {_SEGMENT, _DATA_LOCATION}.intersection(numbers)
    if not is_plain or types[0] not in FLOATS:
        return data[begin:end]
    parts = [data[first:last] for number, _, first, _, last in fields if number != _RAW_DATA]
    ((_, _, _, offset, stop),) = raw
    return b"".join([*parts, _place(path, offset, stop - offset).SerializeToString()])


def _place(path: str, offset: int, length: int, name: str | None = None) -> TensorProto:
    where = {"location": path, "offset": str(offset), "length": str(length)}
    return _external(where, name)


def _external(where: Mapping[str, str], name: str | None) -> TensorProto:
    """A tensor that says no more than where its elements are."""
    tensor = TensorProto(data_location=TensorProto.EXTERNAL, name=name)
    for key, value in where.items():
        tensor.external_data.add(key=key, value=value)
    return tensor


def _fields(data: mmap.mmap, at: int, end: int) -> Iterator[Field]:
    """The fields of an encoded message.

    Raises:
        IndexError, ValueError: it is damaged.
    """
    while at < end:
        begin = at
        key, at = _varint(data, at)
        number, type_ = key >> 3, key & 7
        held = at
        if type_ == _NUMBER:
            _, at = _varint(data, at)
        elif type_ == BYTES:
            length, held = _varint(data, at)
            at = held + length
        elif type_ in (_EIGHT_BYTES, _FOUR_BYTES):
            at += 8 if type_ == _EIGHT_BYTES else 4
        else:
            raise ValueError(f"a field of type {type_}")
        if at > end:
            raise ValueError("a field ends behind its message")
        yield number, type_, begin, held, at


def _varint(data: mmap.mmap, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, the lowest first, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _framed(number: int, held: bytes) -> bytes:
    """A field of bytes."""
    return field_head(number, len(held)) + held
