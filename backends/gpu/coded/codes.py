"""Codes of a product's operand on a GPU: held as they are stored until they are written to a group.

A work-item reads a word of codes, 4 bytes, and what scales and zero points the elements in it have.
It holds these while its group multiplies the slice before: to make floats of them at once would be
to wait for them, and floats take more registers.

Words lie at multiples of their size: codes fill the columns of the matrix in whole words, and each
row of them, too.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.gpu.coded.words import WORD_BYTES, read_word
from odtc.backends.kernels.common.places import Readable, index, rounded, size_of
from odtc.backends.kernels.common.quantised import Quantised
from odtc.backends.kernels.common.vectors import ramp, splat, vector_type
from odtc.dialect.elements.dequantised import AS_IT_IS, BFLOAT16, NIBBLES, place_of

# Codes of a word, and how many of these become floats at once.
_IN_WORD = {NIBBLES: 8, AS_IT_IS: 4, BFLOAT16: 2}
_AT_ONCE = {NIBBLES: 4, AS_IT_IS: 4, BFLOAT16: 1}
_FOUR = 4


def codes_at_once(quantised: Quantised) -> int:
    """Codes that are read at once, as a word, along the columns of a matrix; else 1."""
    lanes, codes = _IN_WORD[quantised.quantisation.stored], quantised.codes
    row = int(codes.shape[1]) * size_of(_dtype(codes))
    is_whole = quantised.shape[1] % lanes == 0 and row % WORD_BYTES == 0
    numbers = (_held_as(each, quantised) for each in (quantised.zero, quantised.scale))
    return lanes if is_whole and all(numbers) else 1


class HeldCodes:
    """Registers of a work-item for words of codes, with their scales and zero points.

    Args:
        quantised: the matrix.
        words: to hold at once.
    """

    def __init__(self, quantised: Quantised, words: int) -> None:
        self._quantised = quantised
        self._codes = _registers(words, "uint32")
        self._numbers: list[_Numbers] = []
        for tensor in (quantised.zero, quantised.scale):
            form = _held_as(tensor, quantised)
            assert form
            self._numbers.append(form(tensor, quantised, words))

    def keep(self, word: ir.Expr, tests: Sequence[ir.Expr], row: ir.Expr, column: ir.Expr) -> None:
        """Emits the reads of a word's elements from a place on; of zeros unless all tests hold."""
        if not tests:
            self._read(word, row, column)
            return
        with T.If(tirx.all(*tests)):
            with T.Then():
                self._read(word, row, column)
            with T.Else():
                T.buffer_store(self._codes, tirx.const(0, "uint32"), [word])
                for numbers in self._numbers:
                    numbers.clear(word)

    def _read(self, word: ir.Expr, row: ir.Expr, column: ir.Expr) -> None:
        codes = self._quantised.codes
        in_word = _IN_WORD[self._quantised.quantisation.stored]
        place = [row, column // in_word * (WORD_BYTES // size_of(_dtype(codes)))]
        T.buffer_store(self._codes, read_word(codes, place), [word])
        for numbers in self._numbers:
            numbers.keep(word, row, column)

    def floats(self, word: ir.Expr) -> list[ir.Expr]:
        """Emits the elements of a word: vectors of neighbours, one after the other."""
        stored = self._quantised.quantisation.stored
        lanes, decode = _AT_ONCE[stored], _DECODE[_dtype(self._quantised.codes), stored]
        zero, scale = self._numbers
        return [
            T.Bind(
                (decode(self._codes[word], first) - zero.value(word, first, lanes))
                * scale.value(word, first, lanes)
            )
            for first in range(0, _IN_WORD[stored], lanes)
        ]


class _Numbers(Protocol):
    """Scales or zero points of the words that an item holds."""

    def __init__(self, tensor: Readable, quantised: Quantised, words: int) -> None: ...

    def keep(self, word: ir.Expr, row: ir.Expr, column: ir.Expr) -> None:
        """Emits the reads of those of a word's elements, of which the first has this place."""
        ...

    def clear(self, word: ir.Expr) -> None:
        """Emits zeros in their place."""
        ...

    def value(self, word: ir.Expr, first: int, lanes: int) -> ir.Expr:
        """Those of neighbours in a word, as floats."""
        ...


class _One:
    """One number for the whole matrix, read once."""

    def __init__(self, tensor: Readable, quantised: Quantised, words: int) -> None:
        del quantised, words
        self._held = _registers(1, "float32")
        number = rounded(tirx.convert(tensor[index(0), index(0)]), "float32")
        T.buffer_store(self._held, number, [0])

    def keep(self, word: ir.Expr, row: ir.Expr, column: ir.Expr) -> None:
        """Emits nothing: it is read."""

    def clear(self, word: ir.Expr) -> None:
        """Emits nothing: it is that of any element."""

    def value(self, word: ir.Expr, first: int, lanes: int) -> ir.Expr:
        del word, first
        return splat(self._held[0], lanes)


class _OfWord:
    """A number for all elements of a word."""

    def __init__(self, tensor: Readable, quantised: Quantised, words: int) -> None:
        self._tensor, self._blocks = tensor, quantised.quantisation.blocks
        # Integers that are only stored are none to compute with, nor to hold.
        self._dtype = "float32" if _dtype(tensor) == "float32" else "int32"
        self._held = _registers(words, self._dtype)

    def keep(self, word: ir.Expr, row: ir.Expr, column: ir.Expr) -> None:
        place = place_of(self._tensor.shape, self._blocks, (row, column))
        number = tirx.convert(self._tensor[place])
        T.buffer_store(self._held, rounded(number, self._dtype), [word])

    def clear(self, word: ir.Expr) -> None:
        T.buffer_store(self._held, tirx.const(0, self._dtype), [word])

    def value(self, word: ir.Expr, first: int, lanes: int) -> ir.Expr:
        del first
        return splat(rounded(self._held[word], "float32"), lanes)


class _FloatOfEach:
    """A float for each element of a word, in vectors of four."""

    def __init__(self, tensor: Readable, quantised: Quantised, words: int) -> None:
        self._tensor, self._blocks = tensor, quantised.quantisation.blocks
        self._each = _IN_WORD[quantised.quantisation.stored] // _FOUR
        self._held = _registers(words * self._each, vector_type("float32", _FOUR))

    def keep(self, word: ir.Expr, row: ir.Expr, column: ir.Expr) -> None:
        row, column = place_of(self._tensor.shape, self._blocks, (row, column))
        for part in range(self._each):
            value = self._tensor[row, ramp(column + part * _FOUR, _FOUR)]
            T.buffer_store(self._held, value, [word * self._each + part])

    def clear(self, word: ir.Expr) -> None:
        zero = splat(tirx.const(0.0, "float32"), _FOUR)
        for part in range(self._each):
            T.buffer_store(self._held, zero, [word * self._each + part])

    def value(self, word: ir.Expr, first: int, lanes: int) -> ir.Expr:
        assert lanes == _FOUR
        return tirx.BufferLoad(self._held, [word * self._each + first // _FOUR])


class _ByteOfEach:
    """A byte for each element of a word, four in a word."""

    def __init__(self, tensor: Readable, quantised: Quantised, words: int) -> None:
        self._tensor, self._blocks = tensor, quantised.quantisation.blocks
        self._each = _IN_WORD[quantised.quantisation.stored] // _FOUR
        self._held = _registers(words * self._each, "uint32")

    def keep(self, word: ir.Expr, row: ir.Expr, column: ir.Expr) -> None:
        row, column = place_of(self._tensor.shape, self._blocks, (row, column))
        for part in range(self._each):
            value = read_word(self._tensor, [row, column + part * _FOUR])
            T.buffer_store(self._held, value, [word * self._each + part])

    def clear(self, word: ir.Expr) -> None:
        for part in range(self._each):
            T.buffer_store(self._held, tirx.const(0, "uint32"), [word * self._each + part])

    def value(self, word: ir.Expr, first: int, lanes: int) -> ir.Expr:
        assert lanes == _FOUR
        held = self._held[word * self._each + first // _FOUR]
        return _DECODE[_dtype(self._tensor), AS_IT_IS](held, 0)


def _held_as(tensor: Readable, quantised: Quantised) -> type[_Numbers] | None:
    """How scales or zero points of words are held; None where an element of a word cannot be."""
    lanes, block = _IN_WORD[quantised.quantisation.stored], quantised.quantisation.blocks[1]
    rows, columns = (int(size) for size in tensor.shape)
    if columns == 1:
        return _One if rows == 1 else _OfWord
    if block % lanes == 0:
        return _OfWord
    is_each = block == 1 and lanes % _FOUR == 0
    of_each = {"float32": _FloatOfEach, "int8": _ByteOfEach, "uint8": _ByteOfEach}
    return of_each.get(_dtype(tensor)) if is_each else None


def _nibbles(word: ir.Expr, first: int) -> ir.Expr:
    return rounded((_four(word) >> _steps(4 * first, 4)) & _constant(15), "float32")


def _unsigned(word: ir.Expr, first: int) -> ir.Expr:
    del first
    return rounded((_four(word) >> _steps(0, 8)) & _constant(255), "float32")


def _signed(word: ir.Expr, first: int) -> ir.Expr:
    """Each byte is moved to the top of an integer, and back with its sign."""
    del first
    return rounded((_four(word) << _steps(24, -8)) >> _constant(24), "float32")


def _upper_half(word: ir.Expr, which: int) -> ir.Expr:
    bits = word & tirx.const(0xFFFF0000, "uint32") if which else word << tirx.const(16, "uint32")
    return tirx.reinterpret("float32", bits)


# Elements of a word from one of them on, by the dtype of what is stored, and how it is.
_DECODE: Mapping[tuple[str, str], Callable[[ir.Expr, int], ir.Expr]] = {
    ("uint8", NIBBLES): _nibbles,
    ("uint8", AS_IT_IS): _unsigned,
    ("int8", AS_IT_IS): _signed,
    ("uint16", BFLOAT16): _upper_half,
}


def _four(word: ir.Expr) -> ir.Expr:
    """A word for each of four elements of it."""
    return splat(rounded(word, "int32"), _FOUR)


def _steps(first: int, step: int) -> ir.Expr:
    """Bits to shift these by."""
    return tirx.Ramp(tirx.const(first, "int32"), tirx.const(step, "int32"), _FOUR)


def _constant(value: int) -> ir.Expr:
    return splat(tirx.const(value, "int32"), _FOUR)


def _dtype(tensor: Readable) -> str:
    return str(getattr(tensor, "dtype", ""))


def _registers(count: int, dtype: str) -> tirx.Buffer:
    return T.sblock_alloc_buffer((count,), dtype, scope="local")
