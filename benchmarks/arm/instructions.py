"""Kinds of AArch64 instructions, as far as a count of arithmetic has to tell them apart.

A table of bits: the first line whose bits an instruction has says what it is. Arm Architecture
Reference Manual for A-profile (DDI 0487), C4.1, has the encodings.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache


class Kind(StrEnum):
    """What an instruction is counted as."""

    MULTIPLY_ADD = "vector multiply-add"
    DOT = "dot product"
    VECTOR = "vector arithmetic"
    SCALAR = "scalar floating point"
    DIVIDE = "division or root"
    SHUFFLE = "other SIMD"
    LOAD = "load"
    STORE = "store"
    BRANCH = "branch"
    INTEGER = "integer"
    OTHER = "other"


@dataclass(frozen=True)
class Instruction:
    """What an instruction is.

    Attributes:
        kind: what it is counted as.
        flops: floating-point operations of one run; a multiply-add has two for each lane.
        is_wide: whether a multiply-add is of 128 bits.
        wide_loads: registers of 128 bits that it loads.
    """

    kind: Kind
    flops: int = 0
    is_wide: bool = False
    wide_loads: int = 0


def _lanes(word: int) -> int:
    """Of a vector instruction of floats: bit 30 says 128 bits, bit 22 doubles, bit 28 one lane."""
    if word >> 28 & 1:
        return 1
    return (4 if word >> 30 & 1 else 2) // (2 if word >> 22 & 1 else 1)


def _half_lanes(word: int) -> int:
    return 8 if word >> 30 & 1 else 4


def _multiply_add(word: int) -> Instruction:
    is_wide = bool(word >> 30 & 1 and not word >> 28 & 1)
    return Instruction(Kind.MULTIPLY_ADD, 2 * _lanes(word), is_wide)


def _half_multiply_add(word: int) -> Instruction:
    return Instruction(Kind.MULTIPLY_ADD, 2 * _half_lanes(word), bool(word >> 30 & 1))


def _vector(word: int) -> Instruction:
    return Instruction(Kind.VECTOR, _lanes(word))


def _divide(word: int) -> Instruction:
    return Instruction(Kind.DIVIDE, _lanes(word))


def _half_vector(word: int) -> Instruction:
    return Instruction(Kind.VECTOR, _half_lanes(word))


def _half_divide(word: int) -> Instruction:
    return Instruction(Kind.DIVIDE, _half_lanes(word))


def _is(kind: Kind, flops: int = 0) -> Callable[[int], Instruction]:
    return lambda _: Instruction(kind, flops)


def _wide_load(registers: int) -> Callable[[int], Instruction]:
    return lambda _: Instruction(Kind.LOAD, wide_loads=registers)


# Mask, the bits under it, and what an instruction with these is.
_TABLE: tuple[tuple[int, int, Callable[[int], Instruction]], ...] = (
    # FMADD, FMSUB, FNMADD, FNMSUB.
    (0xFF000000, 0x1F000000, _is(Kind.SCALAR, 2)),
    # FMLA, FMLS: vector, by element, and of half precision.
    (0xBF20FC00, 0x0E20CC00, _multiply_add),
    (0xAF80B400, 0x0F801000, _multiply_add),
    (0xBF60FC00, 0x0E400C00, _half_multiply_add),
    (0xAFC0B400, 0x0F001000, _half_multiply_add),
    # SDOT, UDOT, by element and of vectors; SMMLA, UMMLA, BFDOT, BFMMLA.
    (0x9F20FC00, 0x0E009400, _is(Kind.DOT)),
    (0x9F00F400, 0x0F00E000, _is(Kind.DOT)),
    (0xDFE0F400, 0x4E80A400, _is(Kind.DOT)),
    (0xBF20FC00, 0x2E00FC00, _is(Kind.DOT)),
    # FDIV and FSQRT of vectors, of vectors of half precision, and of scalars.
    (0xBFA0FC00, 0x2E20FC00, _divide),
    (0xBFBFFC00, 0x2EA1F800, _divide),
    (0xBFE0FC00, 0x2E403C00, _half_divide),
    (0xBFFFFC00, 0x2EF9F800, _half_divide),
    (0xFF20FC00, 0x1E201800, _is(Kind.DIVIDE, 1)),
    (0xFF3FFC00, 0x1E21C000, _is(Kind.DIVIDE, 1)),
    # Other arithmetic of two vectors of floats: opcode 11xxx of three the same; FMUL by element.
    (0x9F20C400, 0x0E20C400, _vector),
    (0xDF20C400, 0x5E20C400, _vector),
    (0x8F80F400, 0x0F809000, _vector),
    (0x9F60C400, 0x0E400400, _half_vector),
    (0x8FC0F400, 0x0F009000, _half_vector),
    # Scalar arithmetic of two operands; everything else of scalar floats.
    (0xFF200C00, 0x1E200800, _is(Kind.SCALAR, 1)),
    (0x7F000000, 0x1E000000, _is(Kind.SCALAR)),
    # Loads of registers of 128 bits: LD1 of one to four, LDP and LDNP, LDR and LDUR.
    (0xFF60F000, 0x4C407000, _wide_load(1)),
    (0xFF60F000, 0x4C40A000, _wide_load(2)),
    (0xFF60F000, 0x4C406000, _wide_load(3)),
    (0xFF60F000, 0x4C402000, _wide_load(4)),
    (0xFE400000, 0xAC400000, _wide_load(2)),
    (0xFEC00000, 0x3CC00000, _wide_load(1)),
    # Other loads and stores: of structures of vectors, of pairs, exclusive, of one register.
    (0xBE000000, 0x0C000000, lambda word: _is(_load_or_store(word, 22))(word)),
    (0x3A000000, 0x28000000, lambda word: _is(_load_or_store(word, 22))(word)),
    (0x3F000000, 0x08000000, lambda word: _is(_load_or_store(word, 22))(word)),
    (0x3B000000, 0x18000000, _is(Kind.LOAD)),
    (0x3A000000, 0x38000000, lambda word: _is(_single(word))(word)),
    # What is left of each group.
    (0x0E000000, 0x0E000000, _is(Kind.SHUFFLE)),
    (0x1C000000, 0x14000000, lambda word: _is(_branch_or_system(word))(word)),
    (0x1C000000, 0x10000000, _is(Kind.INTEGER)),
    (0x0E000000, 0x0A000000, _is(Kind.INTEGER)),
)


def _load_or_store(word: int, bit: int) -> Kind:
    return Kind.LOAD if word >> bit & 1 else Kind.STORE


def _single(word: int) -> Kind:
    """Of one register: bits 22 and 23 are 0 of a store; of vectors bit 22 alone says it."""
    if word >> 26 & 1:
        return _load_or_store(word, 22)
    return Kind.STORE if word >> 22 & 3 == 0 else Kind.LOAD


def _branch_or_system(word: int) -> Kind:
    return Kind.OTHER if word >> 24 in (0xD4, 0xD5) else Kind.BRANCH


@cache
def instruction(word: int) -> Instruction:
    """What an instruction is, by its 32 bits."""
    for mask, bits, found in _TABLE:
        if word & mask == bits:
            return found(word)
    return Instruction(Kind.OTHER)
