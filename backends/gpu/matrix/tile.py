"""A tile of a product that the subgroups of a group multiply in matrices."""

import tvm_ffi
from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.gpu.matrix.sums import MatrixSums
from odtc.backends.gpu.product_results import Results, Stores, within
from odtc.backends.gpu.product_slices import Shared
from odtc.backends.gpu.tiling import ProductExtent, Tiling
from odtc.backends.kernels.common.vectors import vector_type
from odtc.core.ir.matrix_calls import SIZE

# Results that an item stores at once, at most.
_AT_ONCE = 4


class SubgroupTile:
    """The sums of a group's tile, in matrices of its subgroups.

    Args:
        tiling: of the product.
        items: numbers of the subgroup and of the item in it.
    """

    def __init__(self, tiling: Tiling, items: tuple[ir.Expr, ir.Expr]) -> None:
        assert tiling.grid
        self._grid, self._tiling = tiling.grid, tiling
        arithmetic = tiling.arithmetic
        self._sums = MatrixSums(tiling.grid, arithmetic.terms, (*items, arithmetic.subgroup))

    def add(self, left: Shared, right: Shared) -> None:
        """Emits what a slice of both operands adds."""
        self._sums.add(left.matrix, right.matrix)

    def store(
        self, extent: ProductExtent, results: Results, first: tuple[ir.Expr, ir.Expr, ir.Expr]
    ) -> None:
        """Emits the stores of all results.

        Args:
            extent: of the product.
            results: where they go.
            first: the matrix, row and column of the tile's first one.
        """
        n, m0, p0 = first
        lanes = results.lanes(_AT_ONCE)
        turns = self._sums.turns(lanes)
        stores = Stores(results, lanes, turns)
        held = T.sblock_alloc_buffer((turns,), vector_type("float32", lanes), scope="local")
        for row in range(self._grid.rows):
            for column in range(0, self._grid.columns, self._grid.together):
                self._sums.hand(row, column)
                m, p = self._sums.row + row * SIZE, self._sums.column + column * SIZE
                self._store_handed(extent, stores, held, (n, m0 + m, p0 + p))

    def _store_handed(
        self,
        extent: ProductExtent,
        stores: Stores,
        held: tirx.Buffer,
        first: tuple[ir.Expr, ir.Expr, ir.Expr],
    ) -> None:
        """Emits the stores of what a subgroup has handed to its items, from a place on."""
        (turns,), lanes = held.shape, tvm_ffi.dtype(str(held.dtype)).lanes
        size = self._tiling.height, self._tiling.width

        def place(turn: ir.Expr) -> tuple[ir.Expr, ir.Expr, ir.Expr]:
            down, across, _ = self._sums.handed(turn, lanes)
            return first[0], first[1] + down, first[2] + across

        with T.unroll(int(turns)) as turn:
            T.buffer_store(held, self._sums.handed(turn, lanes)[2], [turn])
        if stores.reads:
            with T.unroll(int(turns)) as turn:
                stores.read(turn, within(extent, size, place(turn), lanes)[0])
        with T.unroll(int(turns)) as turn:
            inside, tests = within(extent, size, place(turn), lanes)
            stores.write(turn, place(turn), inside, _scalars(held[turn], lanes), tests)


def _scalars(vector: ir.Expr, lanes: int) -> list[ir.Expr]:
    if lanes == 1:
        return [vector]
    return [tirx.Shuffle([vector], [lane]) for lane in range(lanes)]
