"""A program as bytes: a header, and tables of records of one size each. `docs/program.md` has them.

Everything is little endian, each table begins at a multiple of 64, and what is between them is
zero. A reader checks all of it once; then it is used as it lies there.
"""

import struct
from collections.abc import Sequence

import numpy as np

from odtc.backends.program.lines import Operand
from odtc.backends.program.program import AtLength, Function, Input, Program
from odtc.core.specs import Role

# Of a program without features, of one with some, and of one with several lengths.
VERSION, WITH_FEATURES, WITH_LENGTHS = 2, 3, 4
MAGIC = b"odtcprog"
NONE = 0xFFFFFFFF

# A role's number is its place here.
ROLES = (
    *(Role.INPUT, Role.LABEL, Role.LEARNING_RATE, Role.STEP),
    *(Role.PARAMETER, Role.FROZEN, Role.STATISTIC, Role.STATE, Role.AVERAGE, Role.STORAGE),
    Role.FEATURES,
)
# Codes of DLPack, by the kind of numpy's dtypes.
_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
_SKIPS = 1
_BOUNDED, _IGNORES, _ACCUMULATOR = 1, 2, 4

_ALIGNMENT = 64
_HEADER = struct.Struct("<8sIIQ32sIIIIII")
_TABLE = struct.Struct("<QQ")
_ARGUMENT = struct.Struct("<IIHHIIIIIQdqqq")
_TENSOR = struct.Struct("<IIHHIIIQ")
_FUNCTION = struct.Struct("<IIIIIIIIIIQQQd")
_CALL = struct.Struct("<III")
_LENGTH = struct.Struct("<QII")


def program_bytes(program: Program) -> bytes:
    """The file of a program.

    Raises:
        struct.error: it has more of something than 32 bits count.
    """
    text, dims, tensors = _Text(), _Dims(), _Tensors()
    kernels: dict[str, int] = {}
    calls, operands, functions = bytearray(), [], bytearray()
    for function in (each for of in program.at for each in of.functions):
        first = len(calls) // _CALL.size
        for call in function.line.calls:
            kernel = kernels.setdefault(call.kernel, len(kernels))
            calls += _CALL.pack(kernel, len(operands), len(call.operands))
            operands += [tensors.number(each) for each in call.operands]
        functions += _function(function, first, text, dims, tensors)
    arguments = b"".join(_argument(each, text, dims) for of in program.at for each in of.arguments)
    placed = b"".join(_tensor(each, dims) for each in tensors.numbers)
    named = struct.pack(f"<{len(kernels)}I", *(text.place(f"__tvm_ffi_{k}") for k in kernels))
    facts = b"".join(
        struct.pack("<II", text.place(key), text.place(value))
        for key, value in program.facts.items()
    )
    tables = (
        (arguments, _ARGUMENT.size),
        (placed, _TENSOR.size),
        (bytes(functions), _FUNCTION.size),
        (bytes(calls), _CALL.size),
        (struct.pack(f"<{len(operands)}I", *operands), 4),
        (named, 4),
        (facts, 8),
        (struct.pack(f"<{len(dims.sizes)}q", *dims.sizes), 8),
        (bytes(text.content), 1),
        (program.constants, 1),
        *(((_lengths(program.at), _LENGTH.size),) if len(program.at) > 1 else ()),
    )
    return _joined(program, tables)


def _joined(program: Program, tables: Sequence[tuple[bytes, int]]) -> bytes:
    """Header and tables, one after the other."""
    places, body = b"", bytearray()
    start = _aligned(_HEADER.size + len(tables) * _TABLE.size)
    for content, size in tables:
        body += bytes(-len(body) % _ALIGNMENT)
        places += _TABLE.pack(start + len(body), len(content) // size)
        body += content
    head = _HEADER.pack(
        MAGIC,
        _version(program),
        len(tables),
        start + len(body),
        bytes.fromhex(program.identity),
        program.micro_batches,
        program.accumulate,
        program.threads,
        _SKIPS * program.skips,
        _number(program.scale),
        program.samples,
    )
    return (head + places).ljust(start, b"\0") + bytes(body)


def _version(program: Program) -> int:
    if len(program.at) > 1:
        return WITH_LENGTHS
    has_features = any(e.role is Role.FEATURES for of in program.at for e in of.arguments)
    return WITH_FEATURES if has_features else VERSION


def _lengths(every: Sequence[AtLength]) -> bytes:
    """Which functions are of each length."""
    first, found = 0, b""
    for each in every:
        found += _LENGTH.pack(each.length, first, len(each.functions))
        first += len(each.functions)
    return found


class _Text:
    """Strings of UTF-8, each once, with a zero after it."""

    def __init__(self) -> None:
        self.content = bytearray()
        self._places: dict[str, int] = {}

    def place(self, text: str) -> int:
        if text not in self._places:
            self._places[text] = len(self.content)
            # A name ends at its first zero for any reader.
            self.content += text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode() + b"\0"
        return self._places[text]


class _Dims:
    """Sizes of dimensions, each shape once."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self._places: dict[tuple[int, ...], int] = {}

    def place(self, shape: tuple[int, ...]) -> int:
        if shape not in self._places:
            self._places[shape] = len(self.sizes)
            self.sizes += shape
        return self._places[shape]


class _Tensors:
    """Operands, each once."""

    def __init__(self) -> None:
        self.numbers: dict[Operand, int] = {}

    def number(self, operand: Operand) -> int:
        return self.numbers.setdefault(operand, len(self.numbers))


def _argument(each: Input, text: _Text, dims: _Dims) -> bytes:
    flags = _BOUNDED * (each.bounds is not None)
    flags |= _IGNORES * (each.ignored is not None) | _ACCUMULATOR * each.is_accumulator
    return _ARGUMENT.pack(
        ROLES.index(each.role),
        text.place(each.spec.name),
        *_dtype(each.spec.dtype),
        len(each.spec.shape),
        dims.place(each.spec.shape),
        each.groups,
        _number(each.averaged),
        flags,
        each.spec.nbytes,
        each.initial,
        *(each.bounds or (0, 0)),
        each.ignored or 0,
    )


def _tensor(each: Operand, dims: _Dims) -> bytes:
    shape = each.shape
    place = (len(shape), dims.place(shape), 0, each.offset)
    return _TENSOR.pack(each.region, each.number, *_dtype(each.dtype), *place)


def _function(each: Function, first: int, text: _Text, dims: _Dims, tensors: _Tensors) -> bytes:
    return _FUNCTION.pack(
        text.place(each.name),
        text.place(each.output) if each.output else NONE,
        first,
        len(each.line.calls),
        tensors.number(each.line.result),
        each.groups,
        dims.place(each.shape),
        each.samples,
        each.axis,
        0,
        each.line.arena_bytes,
        each.line.result_bytes,
        each.budget_bytes,
        each.time,
    )


def _dtype(name: str) -> tuple[int, int]:
    """Code and bits of DLPack's."""
    dtype = np.dtype(name)
    return _CODES[dtype.kind], 8 * dtype.itemsize


def _number(value: int | None) -> int:
    return NONE if value is None else value


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
