"""Multiply-accumulate of a product's work-item, over one slice of both operands at a time.

In float32 a sum stays in a register from the first term to the last. In float16 it does so for the
terms of one slice; then it is widened and added to one in float32, as on CPUs
(`backends/kernels/product/half_runs.py`), so that long sums stay as exact as their operands. Two
float16 are multiplied at once: phones' GPUs are said to do that in the time of one float32, some of
them for vectors alone. To widen a pair takes two conversions and two additions, beside the 16 steps
of a slice, of which each would take as long in float32. Multiplying in float16 and adding in
float32 would take them at every step.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.places import rounded, size_of
from odtc.backends.kernels.common.vectors import splat, vector_type

Slice = Callable[[ir.Expr, ir.Expr, int], ir.Expr]

# Items of a group along the columns of a tile.
ACROSS = 16


@dataclass(frozen=True)
class Arithmetic:
    """The dtype and vector width in which a product multiplies.

    Attributes:
        dtype: of the operands in a group's shared memory.
        terms: terms of the sum in a slice.
        lanes: columns that are multiplied at once.
    """

    dtype: str
    terms: int
    lanes: int

    @property
    def term_bytes(self) -> int:
        """Bytes of an operand's element in shared memory."""
        return size_of(self.dtype)


SINGLE, HALF = Arithmetic("float32", 8, 1), Arithmetic("float16", 16, 2)


class Accumulators:
    """The sums of a work-item: some rows by some columns.

    An item reads what its group shares in vectors of neighbours, since reading a number takes it as
    long as four products: of 8 x 8 sums, 4 reads for 64 products in place of 16.

    Args:
        rows: of results.
        columns: of results.
        arithmetic: of the product.

    Attributes:
        results: float32[rows, columns], in registers.
        wide: columns of an item that lie side by side in the tile.
    """

    def __init__(self, rows: int, columns: int, arithmetic: Arithmetic) -> None:
        self._shape, self._arithmetic = (rows, columns), arithmetic
        self._is_half = arithmetic.dtype == HALF.dtype
        self._high = _neighbours(rows)
        self.wide = arithmetic.lanes if self._is_half else _neighbours(columns)
        self.results = _registers((rows, columns), "float32")
        self._rows = self._read_at_once(rows, self._high)
        self._columns = self._read_at_once(columns, self.wide)
        of_many = vector_type(arithmetic.dtype, arithmetic.lanes)
        self._now = (
            _registers((rows, columns // arithmetic.lanes), of_many)
            if self._is_half
            else self.results
        )
        self._clear(self.results)

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
        if self._is_half:
            self._clear(self._now)
        rows, columns = int(self._rows.shape[0]), int(self._columns.shape[0])
        with T.unroll(self._arithmetic.terms) as k:
            with T.unroll(rows) as i:
                T.buffer_store(self._rows, left(k, row + i * high, high), [i])
            with T.unroll(columns) as j:
                T.buffer_store(self._columns, right(k, _across(j, x, wide), wide), [j])
            with (
                T.unroll(int(self._rows.shape[0])) as i,
                T.unroll(int(self._columns.shape[0])) as j,
            ):
                self._multiply(i, j)
        if self._is_half:
            self._widen()

    def _multiply(self, i: ir.Expr, j: ir.Expr) -> None:
        """Emits the products of the rows and columns that were read at once."""
        lanes = self._arithmetic.lanes
        for row in range(self._high):
            left = splat(_lane(self._rows[i], row, self._high), lanes)
            for part in range(self.wide // lanes):
                right = self._columns[j]
                right = right if self._is_half else _lane(right, part, self.wide)
                at = [i * self._high + row, j * (self.wide // lanes) + part]
                T.buffer_store(self._now, tirx.BufferLoad(self._now, at) + left * right, at)

    def _read_at_once(self, count: int, neighbours: int) -> tirx.Buffer:
        return _registers((count // neighbours,), vector_type(self._arithmetic.dtype, neighbours))

    def _clear(self, accumulators: tirx.Buffer) -> None:
        zero = tirx.const(0.0, str(accumulators.dtype))
        with T.unroll(int(accumulators.shape[0])) as i, T.unroll(int(accumulators.shape[1])) as j:
            T.buffer_store(accumulators, zero, [i, j])

    def _widen(self) -> None:
        lanes = self._arithmetic.lanes
        with T.unroll(self._shape[0]) as i, T.unroll(self._shape[1] // lanes) as j:
            now = tirx.BufferLoad(self._now, [i, j])
            for lane in range(lanes):
                at = [i, j * lanes + lane]
                more = rounded(_lane(now, lane, lanes), "float32")
                T.buffer_store(self.results, tirx.BufferLoad(self.results, at) + more, at)


def _across(vector: int | ir.Expr, x: ir.Expr, wide: int) -> ir.Expr:
    """First column of one of an item's vectors: items read neighbours, one after the other."""
    return (vector * ACROSS + x) * wide


def _neighbours(count: int) -> int:
    """Returns the number of elements to read at once."""
    return next(n for n in (4, 2, 1) if count % n == 0)


def _lane(vector: ir.Expr, lane: int, lanes: int) -> ir.Expr:
    return vector if lanes == 1 else tirx.Shuffle([vector], [lane])


def _registers(shape: tuple[int, ...], dtype: str) -> tirx.Buffer:
    return T.sblock_alloc_buffer(shape, dtype, scope="local")
