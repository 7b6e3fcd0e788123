"""Columns that are counted through several matrices, such as the positions of several images."""

from collections.abc import Callable
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.places import index
from odtc.backends.kernels.product.tile import Tile


@dataclass(frozen=True)
class Columns:
    """Columns that are counted through several matrices.

    Attributes:
        matrices: how many.
        each: columns of one.
    """

    matrices: int
    each: int

    @property
    def total(self) -> int:
        """Columns of all."""
        return self.matrices * self.each

    def place(self, n: ir.Expr, at: ir.Expr) -> tuple[ir.Expr, ir.Expr]:
        """The matrix and its column."""
        return (n, at) if self.matrices == 1 else (at // self.each, at % self.each)

    def start(self, tile: Tile, panel: ir.Expr) -> ir.Expr:
        """The first column of a panel; the last one reaches back over results that are there."""
        return T.Bind(tirx.min(panel * tile.columns, index(max(self.total - tile.columns, 0))))

    def by_vector(
        self,
        tile: Tile,
        n: ir.Expr,
        at: ir.Expr,
        of_vector: Callable[[int, ir.Expr, ir.Expr], None],
        of_element: Callable[[ir.Expr, ir.Expr, ir.Expr], None],
    ) -> None:
        """Emits something for the columns of a tile.

        Args:
            tile: its shape.
            n: the matrix, where there is one.
            at: the first column.
            of_vector: `(vector, n, p)`, where a vector's columns are of one matrix.
            of_element: `(j, n, p)`, where a column of the tile is on its own.
        """
        if self.total < tile.columns:
            with T.serial(min(self.total, tile.columns)) as j:
                of_element(j, *self.place(n, at + j))
            return
        for vector in range(tile.vectors):
            start = vector * tile.lanes
            of, p = (T.Bind(each) for each in self.place(n, at + start))
            if self.matrices == 1:
                of_vector(vector, of, p)
                continue
            with T.If(p + tile.lanes <= self.each):
                with T.Then():
                    of_vector(vector, of, p)
                with T.Else(), T.serial(tile.lanes) as lane:
                    of_element(start + lane, *self.place(n, at + start + lane))
