"""A reader of programs, from `docs/program.md` alone; it shares no code with the writer."""

import struct
from dataclasses import dataclass
from typing import Any

HEADER = "8s I I Q 32s I I I I I I"
TABLES = {
    "arguments": "I I H H I I I I I Q d q q q",
    "tensors": "I I H H I I I Q",
    "functions": "I I I I I I I I I I Q Q Q d",
    "calls": "I I I",
    "operands": "I",
    "kernels": "I",
    "facts": "I I",
    "sizes": "q",
    "text": "c",
    "constants": "c",
    "lengths": "Q I I",
}
# Which only a program of this version has.
WITH_LENGTHS = 4
ROLES = (
    "input label learning-rate step parameter frozen statistic state average storage features"
).split()
DTYPES = {
    **{(0, bits): f"int{bits}" for bits in (8, 16, 32, 64)},
    **{(1, bits): f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{(2, bits): f"float{bits}" for bits in (16, 32, 64)},
    (6, 8): "bool",
}
NOTHING = 2**32 - 1


@dataclass
class Read:
    """A program: its header, and its tables with names, shapes and dtypes in place of numbers."""

    header: tuple[Any, ...]
    arguments: list[dict[str, Any]]
    tensors: list[dict[str, Any]]
    functions: list[dict[str, Any]]
    facts: dict[str, str]
    constants: bytes
    lengths: list[tuple[int, int, int]]


def read(data: bytes) -> Read:
    header = struct.unpack_from("<" + HEADER, data)
    tables = [*TABLES.items()][: None if header[1] == WITH_LENGTHS else -1]
    assert (header[0], *header[2:4]) == (b"odtcprog", len(tables), len(data))
    assert header[1] in (2, 3, WITH_LENGTHS)
    rows: dict[str, Any] = {"lengths": []}
    at, end = 80, 80 + 16 * len(tables)
    for name, form in tables:
        place, count = struct.unpack_from("<QQ", data, at)
        size = struct.calcsize("<" + form)
        assert place % 64 == 0
        assert 0 <= place - end < 64 or not count
        assert not any(data[end:place])
        at, end = at + 16, place + count * size
        rows[name] = (
            data[place:end]
            if form == "c"
            else [struct.unpack_from("<" + form, data, place + n * size) for n in range(count)]
        )
    assert end == len(data)
    sizes = [size for (size,) in rows["sizes"]]

    def text(place: int) -> str:
        return rows["text"][place : rows["text"].index(b"\0", place)].decode()

    def shape(rank: int, first: int) -> tuple[int, ...]:
        found = tuple(sizes[first : first + rank])
        assert len(found) == rank
        return found

    arguments = [
        {
            "role": ROLES[role],
            "name": text(name),
            "dtype": DTYPES[code, bits],
            "shape": shape(rank, first),
            "groups": groups,
            "averaged": None if of == NOTHING else of,
            "flags": flags,
            "bytes": size,
            "initial": initial,
            "bounds": (least, most) if flags & 1 else None,
            "ignored": ignored if flags & 2 else None,
        }
        for role, name, code, bits, rank, first, groups, of, flags, *rest in rows["arguments"]
        for size, initial, least, most, ignored in [rest]
    ]
    tensors = [
        {
            "in": ("argument", "constant", "arena", "result")[region],
            "number": number,
            "dtype": DTYPES[code, bits],
            "shape": shape(rank, first),
            "offset": offset,
        }
        for region, number, code, bits, rank, first, _, offset in rows["tensors"]
    ]
    kernels = [text(place) for (place,) in rows["kernels"]]
    operands = [number for (number,) in rows["operands"]]

    def calls(first: int, count: int) -> list[tuple[str, list[int]]]:
        found = rows["calls"][first : first + count]
        assert len(found) == count
        return [(kernels[k], operands[at : at + many]) for k, at, many in found]

    functions = [
        {
            "name": text(name),
            "output": None if output == NOTHING else text(output),
            "calls": calls(first, count),
            "result": result,
            "groups": groups,
            "shape": shape(len(tensors[result]["shape"]), dims),
            "samples": samples,
            "axis": axis,
            "arena": arena,
            "result_bytes": result_bytes,
            "budget": budget,
            "time": time,
        }
        for name, output, first, count, result, groups, dims, *rest in rows["functions"]
        for samples, axis, _, arena, result_bytes, budget, time in [rest]
    ]
    facts = {text(name): text(value) for name, value in rows["facts"]}
    return Read(header, arguments, tensors, functions, facts, rows["constants"], rows["lengths"])
