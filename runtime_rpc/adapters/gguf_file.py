"""Writes tensors as a GGUF file, the format of llama.cpp, version 3.

    "GGUF", version, number of tensors, number of keys
    each key: its name, the type of its value, the value
    each tensor: its name, sizes with the innermost first, type, offset of its elements
    elements, each tensor at a multiple of 32 bytes

All numbers are little-endian; a text is its length in 8 bytes, then UTF-8.
"""

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

_MAGIC, _VERSION = b"GGUF", 3
_ALIGNMENT = 32
# The types of values, and of tensors, that are written here.
_FLOAT32, _STRING = 6, 8
_TENSOR_FLOAT32 = 0


def write_gguf(
    path: Path, keys: Mapping[str, str | float], tensors: Mapping[str, np.ndarray]
) -> None:
    """Writes a file; the same values give the same bytes.

    Args:
        path: of the file, which is written over.
        keys: texts, and numbers as float32.
        tensors: float32 arrays of at most 4 dimensions.

    Raises:
        OSError: the system could not write it.
    """
    arrays = {name: np.ascontiguousarray(array, np.float32) for name, array in tensors.items()}
    head = b"".join(_head(keys, arrays))
    with open(path, "wb") as file:
        file.write(_padded(head))
        for array in arrays.values():
            file.write(_padded(array.astype("<f4").tobytes()))


def _head(keys: Mapping[str, str | float], arrays: Mapping[str, np.ndarray]) -> Iterator[bytes]:
    yield _MAGIC + struct.pack("<IQQ", _VERSION, len(arrays), len(keys))
    for key, value in keys.items():
        yield _text(key)
        if isinstance(value, str):
            yield struct.pack("<I", _STRING) + _text(value)
        else:
            yield struct.pack("<If", _FLOAT32, value)
    offset = 0
    for name, array in arrays.items():
        sizes = struct.pack(f"<{array.ndim}Q", *reversed(array.shape))
        yield _text(name) + struct.pack("<I", array.ndim) + sizes
        yield struct.pack("<IQ", _TENSOR_FLOAT32, offset)
        offset += array.nbytes + -array.nbytes % _ALIGNMENT


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % _ALIGNMENT)
