"""How attention is cut: blocks of queries, in panels of whole vectors, and blocks of keys.

Scores are kept transposed, `scores[key, query]`: then vectors run over queries, and the largest
score of each query and its sum are vectors, too. Keys and values are read where they lie; only the
queries of a block are transposed.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.attention.layout import Heads, Matrix, shifted
from odtc.backends.kernels.common.places import index
from odtc.backends.kernels.common.transpose import copy_transposed
from odtc.backends.kernels.product.panels import Read
from odtc.backends.kernels.product.tile import Machine, Tile

# Queries and keys of a block: its scores stay in a second-level cache, as do its keys and values.
QUERIES, KEYS = 64, 256


@dataclass(frozen=True)
class KeyRange:
    """Keys, counted from the first of their block.

    Attributes:
        first: the first of them.
        end: that behind the last one.
        is_whole: whether they are known to be all of their block.
    """

    first: ir.Expr
    end: ir.Expr
    is_whole: bool

    @property
    def count(self) -> ir.Expr:
        """How many they are."""
        return self.end - self.first


@dataclass(frozen=True)
class AttentionBlocks:
    """How queries and keys are cut.

    Attributes:
        tile: of scores: keys, and queries of a panel.
        panels: panels of a block of queries, at most.
        queries: number of queries.
        keys: number of keys.
        block: keys of a block.
    """

    tile: Tile
    panels: int
    queries: int
    keys: int
    block: int

    @staticmethod
    def of(heads: Heads, machine: Machine) -> "AttentionBlocks":
        """Returns the blocks of an attention."""
        parts = -(-heads.keys // KEYS)
        block = -(-heads.keys // parts)
        tile = machine.tile(block, heads.queries)
        columns = min(heads.queries, QUERIES)
        return AttentionBlocks(tile, -(-columns // tile.columns), heads.queries, heads.keys, block)

    @property
    def most(self) -> int:
        """Queries of a block, at most."""
        return self.panels * self.tile.columns

    @property
    def query_blocks(self) -> int:
        """Number of blocks of queries."""
        return -(-self.queries // self.most)

    @property
    def key_blocks(self) -> int:
        """Number of blocks of keys."""
        return -(-self.keys // self.block)

    def span(self, block: ir.Expr) -> "QuerySpan":
        """The queries of a block; the last panel reaches back over queries of the block before."""
        columns, panels = self.tile.columns, index(self.panels)
        if self.queries <= self.most:
            return QuerySpan(self, index(0), panels, index(0), index(self.queries))
        first = block * self.most
        if self.queries % self.most == 0:
            return QuerySpan(self, T.Bind(first), panels, index(0), index(self.most))
        rest = self.queries - first
        panels = T.Bind(tirx.min(panels, (rest + (columns - 1)) // columns))
        start = T.Bind(tirx.min(first, self.queries - panels * columns))
        return QuerySpan(self, start, panels, T.Bind(first - start), panels * columns)

    def each_vector(
        self, among: KeyRange, at: ir.Expr, body: Callable[[ir.Expr, ir.Expr], None]
    ) -> None:
        """Emits `body(key, queries)` for all vectors of a panel's scores, one after the other.

        They are one loop, which LLVM does not unroll: powers of several vectors at once would not
        fit into registers.

        Args:
            among: keys of the block.
            at: first query of the panel.
            body: is given indices in a block of scores.
        """
        vectors, first = self.tile.vectors, among.first
        with T.serial(among.count * vectors) as i:
            n, v = T.Bind(first + i // vectors), T.Bind(i % vectors)
            body(n, self.tile.span(v, at))

    def first_key(self, block: ir.Expr) -> tuple[ir.Expr, ir.Expr]:
        """The first key of a block, and how many of the block before it begins with."""
        if self.keys % self.block == 0:
            return T.Bind(block * self.block), index(0)
        start = T.Bind(tirx.min(block * self.block, index(self.keys - self.block)))
        return start, T.Bind(block * self.block - start)


@dataclass(frozen=True)
class QuerySpan:
    """The queries of a block.

    Attributes:
        blocks: how they are cut.
        start: the first of them.
        panels: number of their panels.
        done: how many of the first ones the block before has, too.
        count: how many they are; panels may be longer where there is one block.
    """

    blocks: AttentionBlocks
    start: ir.Expr
    panels: ir.Expr
    done: ir.Expr
    count: ir.Expr

    def across(self, matrix: Matrix, target: tirx.Buffer, lanes: int, scale: float = 1.0) -> None:
        """Emits `target[element, query] = scale * matrix[query, element]`."""

        def read(i: ir.Expr, j: ir.Expr) -> ir.Expr:
            value = matrix.read(self.start + i, j)
            return value if scale == 1.0 else value * scale

        self.transposed(int(matrix.argument.buffer.shape[3]), read, target, lanes)

    def transposed(self, size: int, read: Read, target: tirx.Buffer, lanes: int) -> None:
        """Emits `target[j, i] = read(i, j)` for `size` j, with zeros where there is no query."""
        columns = self.blocks.tile.columns
        if not self._is_short:
            with T.serial(self.panels) as panel:
                at = T.Bind(panel * columns)
                copy_transposed(
                    (columns, size),
                    lambda i, j: read(at + i, j),
                    target,
                    lambda j, i: [index(j), shifted(i, at)],
                    lanes,
                )
            return
        with T.grid(size, self.blocks.most) as (j, i):
            T.buffer_store(target, tirx.const(0.0, "float32"), [j, i])
        copy_transposed(
            (self.blocks.queries, size), read, target, lambda j, i: [index(j), i], lanes
        )

    @property
    def _is_short(self) -> bool:
        """Whether panels are longer than what there is."""
        return self.blocks.queries < self.blocks.most

    def numbers(self, read: Callable[[ir.Expr], ir.Expr]) -> tirx.Buffer:
        """Emits a copy of a number of each query, counted from the first."""
        made = T.sblock_alloc_buffer((self.blocks.most,), "float32")
        if self._is_short:
            with T.serial(self.blocks.most) as i:
                T.buffer_store(made, tirx.const(0.0, "float32"), [i])
        with T.serial(self.count) as i:
            T.buffer_store(made, read(self.start + i), [i])
        return made

    def panel(self, body: Callable[[ir.Expr], None]) -> None:
        """Emits a loop over panels; the body gets the first query of each."""
        with T.serial(self.panels) as panel:
            body(T.Bind(panel * self.blocks.tile.columns))
