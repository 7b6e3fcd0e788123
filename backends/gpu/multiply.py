"""What a work-item of a product adds to its sums, a slice of both operands at a time.

In float32 a sum stays in a register from the first term to the last. In float16 it does so for the
terms of one slice; then it is widened and added to one in float32, as on CPUs
(`backends/kernels/half_runs.py`), so that long sums stay as exact as their operands. Two float16
are multiplied at once: phones' GPUs are said to do that in the time of one float32, some of them
for vectors alone. To widen a pair takes two conversions and two additions, beside the 16 steps of a
slice, of which each would take as long in float32. Multiplying in float16 and adding in float32
would take them at every step.
"""

from dataclasses import dataclass

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.places import rounded, size_of
from odtc.backends.kernels.vectors import ramp, splat, vector_type

# Items of a group along the columns of a tile.
ACROSS = 16


@dataclass(frozen=True)
class Arithmetic:
    """What a product multiplies.

    Attributes:
        dtype: of the operands as a group shares them.
        terms: of a slice.
        lanes: columns that are multiplied at once.
    """

    dtype: str
    terms: int
    lanes: int

    @property
    def term_bytes(self) -> int:
        """Of an element that a group shares."""
        return size_of(self.dtype)


SINGLE, HALF = Arithmetic("float32", 8, 1), Arithmetic("float16", 16, 2)


class Sums:
    """The sums of a work-item: some rows by some columns.

    Args:
        rows: of results.
        columns: of results.
        arithmetic: of the product.

    Attributes:
        results: float32[rows, columns], in registers.
    """

    def __init__(self, rows: int, columns: int, arithmetic: Arithmetic) -> None:
        self._shape, self._arithmetic = (rows, columns), arithmetic
        self._vectors = columns // arithmetic.lanes
        of_one, of_many = arithmetic.dtype, vector_type(arithmetic.dtype, arithmetic.lanes)
        self.results = _registers((rows, columns), "float32")
        self._rows = _registers((rows,), of_one)
        self._columns = _registers((self._vectors,), of_many)
        self._is_half = of_one == HALF.dtype
        self._now = _registers((rows, self._vectors), of_many) if self._is_half else self.results
        self._clear(self.results)

    def column(self, number: int | ir.Expr, x: ir.Expr) -> ir.Expr:
        """Which column of the tile one of the item's is; `x` is the item's number across."""
        lanes = self._arithmetic.lanes
        if lanes == 1:
            return number * ACROSS + x
        return (number // lanes * ACROSS + x) * lanes + number % lanes

    def add(self, left: tirx.Buffer, right: tirx.Buffer, row: ir.Expr, x: ir.Expr) -> None:
        """Emits what a slice adds: `left[k, row + i] * right[k, column(j, x)]`.

        Args:
            left: `[terms, height]` that the group shares.
            right: `[terms, width]`.
            row: of the tile, the first one of the item.
            x: number of the item across.
        """
        rows, lanes = self._shape[0], self._arithmetic.lanes
        if self._is_half:
            self._clear(self._now)
        with T.unroll(self._arithmetic.terms) as k:
            with T.unroll(rows) as i:
                T.buffer_store(self._rows, tirx.BufferLoad(left, [k, row + i]), [i])
            with T.unroll(self._vectors) as j:
                at = ramp((j * ACROSS + x) * lanes, lanes)
                T.buffer_store(self._columns, tirx.BufferLoad(right, [k, at]), [j])
            with T.unroll(rows) as i, T.unroll(self._vectors) as j:
                term = splat(tirx.BufferLoad(self._rows, [i]), lanes) * self._columns[j]
                T.buffer_store(self._now, tirx.BufferLoad(self._now, [i, j]) + term, [i, j])
        if self._is_half:
            self._widen()

    def _clear(self, sums: tirx.Buffer) -> None:
        zero = tirx.const(0.0, str(sums.dtype))
        with T.unroll(int(sums.shape[0])) as i, T.unroll(int(sums.shape[1])) as j:
            T.buffer_store(sums, zero, [i, j])

    def _widen(self) -> None:
        lanes = self._arithmetic.lanes
        with T.unroll(self._shape[0]) as i, T.unroll(self._vectors) as j:
            now = tirx.BufferLoad(self._now, [i, j])
            for lane in range(lanes):
                at = [i, j * lanes + lane]
                more = rounded(tirx.Shuffle([now], [lane]), "float32")
                T.buffer_store(self.results, tirx.BufferLoad(self.results, at) + more, at)


def _registers(shape: tuple[int, ...], dtype: str) -> tirx.Buffer:
    return T.sblock_alloc_buffer(shape, dtype, scope="local")
