"""Multiply-accumulate of a product's work-item, over one slice of both operands at a time.

A sum stays in a register from the first term to the last, in float32. What a group shares may be
float16: it takes half of the memory, and an item widens what it reads of it. Of two float16 float32
holds the product exactly, so that errors are those of rounding the operands, and of float32's sums.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.places import rounded, size_of
from odtc.backends.kernels.common.vectors import vector_type

Slice = Callable[[ir.Expr, ir.Expr, int], ir.Expr]

# Of sums, and of what is multiplied in registers.
_SUM = "float32"
# Items of a group along the columns of a tile.
ACROSS = 16
# Numbers that an item reads of shared memory at once, at most.
AT_ONCE = 4


@dataclass(frozen=True)
class Arithmetic:
    """What a product multiplies.

    Attributes:
        dtype: of the operands in a group's shared memory.
        terms: terms of the sum in a slice.
        subgroup: items that multiply matrices together; 0 where each multiplies by itself.
    """

    dtype: str
    terms: int
    subgroup: int = 0

    @property
    def term_bytes(self) -> int:
        """Bytes of an operand's element in shared memory."""
        return size_of(self.dtype)


SINGLE, HALF = Arithmetic("float32", 8), Arithmetic("float16", 16)


class Accumulators:
    """The sums of a work-item: some rows by some columns.

    An item reads what its group shares in vectors of neighbours, since reading a number takes it as
    long as four products: of 8 x 8 sums, 4 reads for 64 products in place of 16.

    Args:
        rows: of results.
        columns: of results.
        arithmetic: of the product.
        most: columns of an item that may lie side by side.

    Attributes:
        results: float32[rows, columns], in registers.
        wide: columns of an item that lie side by side in the tile.
    """

    def __init__(
        self, rows: int, columns: int, arithmetic: Arithmetic, most: int = AT_ONCE
    ) -> None:
        self._terms = arithmetic.terms
        self._high, self.wide = _neighbours(rows), min(_neighbours(columns), most)
        self.results = _registers((rows, columns), _SUM)
        self._rows = _read_at_once(rows, self._high)
        self._columns = _read_at_once(columns, self.wide)
        self._clear()

    def column(self, number: int | ir.Expr, x: ir.Expr) -> ir.Expr:
        """Returns the tile's column for an item's column number; `x` is the item's index across."""
        wide = self.wide
        return (
            number * ACROSS + x if wide == 1 else _across(number // wide, x, wide) + number % wide
        )

    def add(self, left: Slice, right: Slice, row: ir.Expr, x: ir.Expr) -> None:
        """Emits what a slice adds: `left[k, row + i] * right[k, column(j, x)]`.

        Args:
            left: `(k, row, lanes)` to a vector of what the group shares.
            right: the same, of the columns.
            row: of the tile, the first one of the item.
            x: number of the item across.
        """
        high, wide = self._high, self.wide
        rows, columns = int(self._rows.shape[0]), int(self._columns.shape[0])
        with T.unroll(self._terms) as k:
            with T.unroll(rows) as i:
                T.buffer_store(self._rows, rounded(left(k, row + i * high, high), _SUM), [i])
            with T.unroll(columns) as j:
                read = right(k, _across(j, x, wide), wide)
                T.buffer_store(self._columns, rounded(read, _SUM), [j])
            with (
                T.unroll(int(self._rows.shape[0])) as i,
                T.unroll(int(self._columns.shape[0])) as j,
            ):
                self._multiply(i, j)

    def _multiply(self, i: ir.Expr, j: ir.Expr) -> None:
        """Emits the products of the rows and columns that were read at once."""
        for row in range(self._high):
            left = _lane(self._rows[i], row, self._high)
            for column in range(self.wide):
                right = _lane(self._columns[j], column, self.wide)
                at = [i * self._high + row, j * self.wide + column]
                T.buffer_store(self.results, tirx.BufferLoad(self.results, at) + left * right, at)

    def _clear(self) -> None:
        rows, columns = (int(size) for size in self.results.shape)
        with T.unroll(rows) as i, T.unroll(columns) as j:
            T.buffer_store(self.results, tirx.const(0.0, _SUM), [i, j])


def _read_at_once(count: int, neighbours: int) -> tirx.Buffer:
    return _registers((count // neighbours,), vector_type(_SUM, neighbours))


def _across(vector: int | ir.Expr, x: ir.Expr, wide: int) -> ir.Expr:
    """First column of one of an item's vectors: items read neighbours, one after the other."""
    return (vector * ACROSS + x) * wide


def _neighbours(count: int) -> int:
    """Returns the number of elements to read at once."""
    return next(n for n in (AT_ONCE, 2, 1) if count % n == 0)


def _lane(vector: ir.Expr, lane: int, lanes: int) -> ir.Expr:
    return vector if lanes == 1 else tirx.Shuffle([vector], [lane])


def _registers(shape: tuple[int, ...], dtype: str) -> tirx.Buffer:
    return T.sblock_alloc_buffer(shape, dtype, scope="local")
