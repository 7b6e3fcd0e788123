"""What a group shares while it computes attention, and how its items lie in it."""

from collections.abc import Callable

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.gpu.attention.tile import AttentionTile
from odtc.backends.gpu.multiply import ACROSS
from odtc.backends.kernels.attention.layout import Heads
from odtc.backends.kernels.common.places import index
from odtc.backends.kernels.common.vectors import ramp

# Numbers that an item reads or writes at once.
AT_ONCE = 4
# Vectors of that many that lie in all banks of the memory.
_BANKED = 8


def barrier() -> None:
    """Emits a wait for all items of the group, and for what they have written to shared memory."""
    T.evaluate(T.tvm_storage_sync("shared"))


def registers(*shape: int) -> tirx.Buffer:
    """Float32 of an item."""
    return T.sblock_alloc_buffer(shape, "float32", scope="local")


class GroupMemory:
    """Memory of a group.

    Args:
        tile: the tile.
        heads: the attention.
        item: number of the item in the group.

    Attributes:
        left: for slices of the rows.
        right: for slices of the columns.
        x: number of the item across.
        y: number of the item down.
    """

    def __init__(self, tile: AttentionTile, heads: Heads, item: ir.Expr) -> None:
        self._tile = tile
        self.y, self.x = item // ACROSS, item % ACROSS
        self.left, self.right, self._scores, self._numbers = (
            T.sblock_alloc_buffer((size,), "float32", scope="shared")
            for size in tile.numbers(heads)
        )

    def keep(self, values: tirx.Buffer, column: Callable[[int], ir.Expr]) -> None:
        """Emits the writes of an item's scores.

        Args:
            values: of the item, `[rows, columns]`.
            column: from an item's column to the tile's.
        """
        rows, together = self._tile.rows, min(self._tile.rows, AT_ONCE)
        for j in range(self._tile.columns):
            for i in range(0, rows, together):
                parts = [tirx.BufferLoad(values, [index(i + n), index(j)]) for n in range(together)]
                value = tirx.Shuffle(parts, [index(n) for n in range(together)])
                place = self._place(column(j), i, together)
                T.buffer_store(self._scores, value, [ramp(place, together)])

    def kept(self, column: Callable[[int], ir.Expr], to: tirx.Buffer) -> None:
        """Emits the reads of what an item has written itself."""
        rows, together = self._tile.rows, min(self._tile.rows, AT_ONCE)
        for j in range(self._tile.columns):
            for i in range(0, rows, together):
                place = ramp(self._place(column(j), i, together), together)
                value = T.Bind(tirx.BufferLoad(self._scores, [place]))
                for n in range(together):
                    T.buffer_store(to, tirx.Shuffle([value], [index(n)]), [i + n, j])

    def score(self, column: ir.Expr, row: ir.Expr, lanes: int) -> ir.Expr:
        """Scores of neighbouring rows."""
        return tirx.BufferLoad(
            self._scores, [ramp(score_place(self._tile, column, row, lanes), lanes)]
        )

    def combined(
        self,
        values: tirx.Buffer,
        combine: Callable[[ir.Expr, ir.Expr], ir.Expr],
    ) -> None:
        """Emits the combination of a number for each row with those of the row's other items.

        They are taken in one order. A barrier has to come before the next one.

        Args:
            values: of the item's rows; gets what all have.
            combine: two numbers to one.
        """
        rows = self._tile.rows
        row = self.y * rows
        with T.unroll(rows) as i:
            T.buffer_store(self._numbers, values[i], [(row + i) * ACROSS + self.x])
        barrier()
        with T.unroll(rows) as i:
            for part in range(0, ACROSS, AT_ONCE):
                place = ramp((row + i) * ACROSS + part, AT_ONCE)
                found = T.Bind(tirx.BufferLoad(self._numbers, [place]))
                for n in range(AT_ONCE):
                    each = tirx.Shuffle([found], [index(n)])
                    is_first = part + n == 0
                    T.buffer_store(values, each if is_first else combine(values[i], each), [i])

    def _place(self, column: ir.Expr, i: int, lanes: int) -> ir.Expr:
        return score_place(self._tile, column, self.y * self._tile.rows + i, lanes)


def score_place(tile: AttentionTile, column: ir.Expr, row: ir.Expr, lanes: int) -> ir.Expr:
    """Where a score lies: items side by side, which have other columns, use other banks.

    Columns begin in the same bank. Of each, vectors are exchanged by the number of the item that
    it belongs to, within as many as lie in all banks.

    Args:
        tile: the tile.
        column: of the score.
        row: of the score, and of the `lanes` from there on.
        lanes: rows to be read or written at once.
    """
    shift = column // min(tile.columns, AT_ONCE) % _BANKED
    vector = tirx.bitwise_xor(row // AT_ONCE, shift)
    rest = row % AT_ONCE if lanes < AT_ONCE else 0
    return column * tile.height + vector * AT_ONCE + rest
