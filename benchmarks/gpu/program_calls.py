"""The calls of a program's step: kernels with shapes, read as `docs/program.md` has the bytes."""

import math
import struct
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

# Bytes of the header, and its tables in their order; each is named here that is read.
_HEADER = 80
_TABLES = {
    **{"arguments": "", "tensors": "IIHHIIIQ", "functions": "IIIIIIIIIIQQQd", "calls": "III"},
    **{"operands": "I", "kernels": "I", "facts": "", "sizes": "q", "text": ""},
}
_SYMBOL = "__tvm_ffi_"
_ARGUMENT = 0
# DLPack's codes and bits of bytes, which workspaces are.
_WORKSPACE = (1, 8)
_PARTS_RANK = 3


def calls_in(program: bytes) -> list[dict[str, Any]]:
    """Name, shapes and bytes of each call of the fastest plan.

    Its workspace is left out, and the parts of a sum (count, elements of the result), which come
    after the result.
    """
    tables = dict(_tables(program))
    (text_at, _), sizes = tables["text"], [size for (size,) in tables["sizes"]]

    def name(kernel: int) -> str:
        (place,) = tables["kernels"][kernel]
        end = program.index(b"\0", text_at + place)
        return program[text_at + place : end].decode().removeprefix(_SYMBOL)

    def call(kernel: int, first: int, count: int) -> dict[str, Any]:
        numbers = [number for (number,) in tables["operands"][first : first + count]]
        operands = [tables["tensors"][number] for number in numbers]
        _, _, *dtype, rank, _, _, _ = operands[-1]
        if rank == 1 and tuple(dtype) == _WORKSPACE:
            operands.pop()
        shapes = [sizes[at : at + rank] for *_, rank, at, _, _ in operands]
        is_computed = len(operands) > 1 and operands[-2][0] != _ARGUMENT
        if is_computed:
            whole = without_parts(name(kernel), shapes)
            del operands[whole:], shapes[whole:]
        widths = [bits // 8 for _, _, _, bits, *_ in operands]
        moved = sum(math.prod(s) * width for s, width in zip(shapes, widths, strict=True))
        return {"name": name(kernel), "shapes": shapes, "bytes": moved}

    _, _, first, count, *_ = tables["functions"][0]
    return [call(*each) for each in tables["calls"][first : first + count]]


def without_parts(name: str, shapes: Sequence[Sequence[int]]) -> int:
    """Number of tensors of a call that are not parts of its sums, which come last.

    Parts of a product are `[parts, rows, columns]` for as many results as it has. Where a stride
    splits a gradient into products of their own, each may have parts.
    """
    whole = len(shapes)
    while whole > 1 and len(shapes[whole - 1]) == _PARTS_RANK and shapes[whole - 1][0] > 1:
        whole -= 1
    result, parts = math.prod(shapes[whole - 1]), shapes[whole:]
    sizes = [math.prod(each[1:]) for each in parts]
    if len(parts) == 1 and sizes[0] == result:
        return whole
    is_strided = "data_gradient" in name and all(result % size == 0 for size in sizes)
    return whole if is_strided else len(shapes)


def _tables(program: bytes) -> Iterator[tuple[str, Any]]:
    """Rows of each table; of the text, where it begins and ends."""
    places = struct.iter_unpack("<QQ", program[_HEADER : _HEADER + 16 * len(_TABLES)])
    for (name, form), (at, count) in zip(_TABLES.items(), places, strict=True):
        size = struct.calcsize(f"<{form}")
        rows = struct.iter_unpack(f"<{form}", program[at : at + count * size]) if form else ()
        yield name, (at, at + count) if name == "text" else [*islice(rows, count)]
