"""The sums of a tile in matrices, which a subgroup multiplies and adds up as a whole.

Such units multiply float16 and add up float32 (`VK_KHR_cooperative_matrix`; NVIDIA's tensor cores
are some). Which item holds which element of a matrix nobody knows, so results go through shared
memory to items that know their places.
"""

from collections.abc import Callable

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.gpu.matrix.grid import Grid
from odtc.backends.kernels.common.vectors import ramp
from odtc.core.ir.matrix_calls import CLEAR, LEFT, LOAD, MULTIPLY, RIGHT, SIZE, STORE, SUMS

_ELEMENTS = SIZE * SIZE
_SUM, _FACTOR = "float32", "float16"
# From a term and a row or column of the tile to a matrix in shared memory: the address of its first
# element, elements from row to row, and whether rows hold terms.
Place = Callable[[int, ir.Expr], tuple[ir.Expr, int, bool]]


class MatrixSums:
    """The sums of a group: some matrices of each subgroup.

    Args:
        grid: of the tile.
        terms: of a slice.
        items: numbers of the subgroup and of the item in it, and how many it has.
    """

    def __init__(self, grid: Grid, terms: int, items: tuple[ir.Expr, ir.Expr, int]) -> None:
        self._grid, self._terms = grid, terms
        self._subgroup, self._lane, self._items = items
        self._sums = _matrices(SUMS, grid.rows * grid.columns, _SUM)
        self._left = _matrices(LEFT, grid.rows, _FACTOR)
        self._right = _matrices(RIGHT, grid.columns, _FACTOR)
        self._handed = T.sblock_alloc_buffer((grid.handed,), _SUM, scope="shared")
        self.row = self._subgroup // grid.across * (grid.rows * SIZE)
        self.column = self._subgroup % grid.across * grid.width
        for number in range(grid.rows * grid.columns):
            _call(CLEAR, self._sums.data, number)

    def add(self, left: Place, right: Place) -> None:
        """Emits what a slice adds to all sums, from the places of its operands.

        These are free then: TVM sees no barrier that calls by address need.
        """
        rows, columns = self._grid.rows, self._grid.columns
        for k in range(0, self._terms, SIZE):
            for i in range(rows):
                place = left(k, self.row + i * SIZE)
                _load(self._left, i, place, by_columns=not place[2])
            for j in range(columns):
                place = right(k, self.column + j * SIZE)
                _load(self._right, j, place, by_columns=place[2])
            for i in range(rows):
                for j in range(columns):
                    total = self._sums.data, i * columns + j
                    factors = self._left.data, i, self._right.data, j
                    _call(MULTIPLY, *total, *factors, self._items)
        T.evaluate(T.tvm_storage_sync("shared"))

    def hand(self, row: int, column: int) -> None:
        """Emits the way of matrices side by side to shared memory, where all items may read them.

        What items have read of those before is waited for.
        """
        if row or column:
            T.evaluate(T.tvm_storage_sync("shared"))
        for j in range(self._grid.together):
            pointer = tirx.address_of(self._handed[self._place(0, j * SIZE)])
            number = row * self._grid.columns + column + j
            _call(STORE, self._sums.data, number, pointer, self._grid.pitch, 0)
        T.evaluate(T.tvm_storage_sync("shared"))

    def turns(self, lanes: int) -> int:
        """Vectors of results that an item has of what is handed at once."""
        return self._grid.together * _ELEMENTS // (lanes * self._items)

    def handed(self, turn: ir.Expr, lanes: int) -> tuple[ir.Expr, ir.Expr, ir.Expr]:
        """Of an item's vector: its row and column of what is handed, and its value."""
        in_row = self._grid.together * SIZE // lanes
        flat = turn * self._items + self._lane
        row, column = flat // in_row, flat % in_row * lanes
        at = ramp(self._place(row, column), lanes)
        return row, column, tirx.BufferLoad(self._handed, [at])

    def _place(self, row: int | ir.Expr, column: int | ir.Expr) -> ir.Expr:
        pitch = self._grid.pitch
        return self._subgroup * (SIZE * pitch) + row * pitch + column


def _matrices(scope: str, count: int, dtype: str) -> tirx.Buffer:
    return T.sblock_alloc_buffer((count * _ELEMENTS,), dtype, scope=scope)


def _load(
    matrices: tirx.Buffer, number: int, place: tuple[ir.Expr, int, bool], *, by_columns: bool
) -> None:
    pointer, pitch, _ = place
    _call(LOAD, matrices.data, number, pointer, pitch, int(by_columns))


def _call(name: str, *arguments: ir.Expr | int) -> None:
    T.evaluate(tirx.call_extern("int32", name, *arguments))
