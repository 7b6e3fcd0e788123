"""A group of work-items that computes attention of a block of one side with blocks of the other."""

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.gpu.attention.memory import AT_ONCE, GroupMemory
from odtc.backends.gpu.attention.slices import StepSlices, multiply
from odtc.backends.gpu.attention.tile import AttentionTile
from odtc.backends.gpu.multiply import Accumulators
from odtc.backends.kernels.attention.layout import Heads, HeadTensor
from odtc.backends.kernels.common.places import index
from odtc.backends.kernels.common.vectors import ramp


class Group:
    """A group with its block of one side, which runs over blocks of the other.

    Args:
        heads: the attention.
        tile: the tile.
        place: sample, head, and number of the block.
        item: number of the item.

    Attributes:
        heads: the attention.
        tile: the tile.
        b: the sample.
        h: the head.
        memory: what the group shares.
        x: number of the item across.
        start: first step of the block.
        row: of the block, the first one of the item.
    """

    def __init__(
        self,
        heads: Heads,
        tile: AttentionTile,
        place: tuple[ir.Expr, ir.Expr, ir.Expr],
        item: ir.Expr,
    ) -> None:
        self.heads, self.tile, self._item = heads, tile, item
        self.b, self.h, block = place
        self.memory = GroupMemory(tile, heads, item)
        self.x = self.memory.x
        self.start, self.row = block * tile.height, self.memory.y * tile.rows

    def sums(self, columns: int) -> Accumulators:
        """Sums of an item."""
        return Accumulators(self.tile.rows, columns, self.tile.arithmetic)

    def product(self, left: HeadTensor, right: HeadTensor, first: ir.Expr) -> Accumulators:
        """Steps of the group's block by those of the other, from `first` on."""
        tile, memory = self.tile, self.memory
        found = self.sums(tile.columns)
        copies = [
            StepSlices(tile, near, each.of(self.b, self.h), at, steps, is_sum=True, item=self._item)
            for near, each, at, steps in (
                (memory.left, left, self.start, tile.height),
                (memory.right, right, first, tile.width),
            )
        ]
        multiply(found, copies, None, (self.row, self.x), tile.terms)
        return found

    def add(self, to: Accumulators, right: HeadTensor, first: ir.Expr) -> None:
        """Adds what the group has kept, times steps from `first` on."""
        tile = self.tile
        matrix = right.of(self.b, self.h)
        copy = StepSlices(
            tile, self.memory.right, matrix, first, tile.width, is_sum=False, item=self._item
        )
        multiply(to, (copy,), self.memory.score, (self.row, self.x), tile.terms)

    def number(self, of: tirx.Buffer, query: ir.Expr, *, is_cut: bool) -> ir.Expr:
        """What there is of a query; zero where there is none."""
        value = tirx.BufferLoad(of, [self.b, self.h, query])
        if not is_cut:
            return value
        return tirx.if_then_else(query < self.heads.queries, value, zero())

    def keep(self, values: Accumulators) -> None:
        """Has the group share an item's scores."""
        self.memory.keep(values.results, lambda j: values.column(j, self.x))

    def store(self, sums: Accumulators, to: HeadTensor, steps: int) -> None:
        """Emits the stores of results of the group's block."""
        size, count = int(to.buffer.shape[3]), sums.results.shape[1]
        lanes = AT_ONCE if size % AT_ONCE == 0 and int(count) % AT_ONCE == 0 else 1
        with T.unroll(self.tile.rows) as i, T.unroll(int(count) // lanes) as part:
            step, element = self.start + self.row + i, sums.column(part * lanes, self.x)
            held = [tirx.BufferLoad(sums.results, [i, part * lanes + n]) for n in range(lanes)]
            value = held[0] if lanes == 1 else tirx.Shuffle(held, [index(n) for n in range(lanes)])
            with T.If(tirx.all(step < steps, element < size)), T.Then():
                place = to.of(self.b, self.h).place(step, ramp(element, lanes))
                T.buffer_store(to.buffer, value, place)


def zero() -> ir.Expr:
    """Zero in float32."""
    return tirx.const(0.0, "float32")
