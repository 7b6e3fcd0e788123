"""Attention backward: scores are computed again, a block at a time, and no probability was kept.

With probabilities `p`, `dv = p' dy`, `ds = p * (dy v' - rowsum(dy * out))`, `dq = scale * ds k` and
`dk = scale * ds' q` (Dao et al., "FlashAttention", 2022, appendix B.2). A task has a head, because
every block of queries adds to the adjoints of all keys.
"""

from collections.abc import Sequence

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.attention.arguments import backward_arguments
from odtc.backends.kernels.attention.blocks import AttentionBlocks, KeyRange, QuerySpan
from odtc.backends.kernels.attention.layout import Heads, HeadTensor, Matrix, fill_rows, zeros
from odtc.backends.kernels.attention.scores import (
    Bias,
    add_product,
    bias_of,
    masked,
    scores,
    tile_within,
    unmasked,
)
from odtc.backends.kernels.attention.seen import SeenKeys
from odtc.backends.kernels.common.places import index, unflatten
from odtc.backends.kernels.common.vectors import ramp
from odtc.backends.kernels.product.panels import Read
from odtc.backends.kernels.product.tile import Machine
from odtc.backends.kernels.rows.passes import row_kernel


def attention_gradient(heads: Heads, dtypes: Sequence[str], machine: Machine) -> tirx.PrimFunc:
    """A kernel `(dy, q, k, v, out, top, share, [mask], dq, dk, dv)`; adjoints are float32.

    Args:
        heads: sizes and layout of the attention.
        dtypes: as stored, of `q`, `k`, `v` and `out`.
        machine: the CPU.
    """
    blocks, lanes = AttentionBlocks.of(heads, machine), machine.lanes
    with row_kernel("attention_gradient") as made:
        of = backward_arguments(heads, dtypes)
        with T.parallel(heads.batch * heads.heads) as task:
            b, h = unflatten(task, (heads.batch, heads.heads))
            keys, values = (
                each.of(b, h).near(0, heads.keys, heads.keys, lanes) for each in (of.k, of.v)
            )
            sums = [_Sum(each, b, h, machine) for each in (of.dk, of.dv)]
            with T.serial(blocks.query_blocks) as block:
                span = blocks.span(block)
                run = _Block(heads, blocks, span, machine)
                read = [each.of(b, h) for each in (of.q, of.dy, of.out)]
                run.load(read, (of.top, of.share), (b, h))
                seen = SeenKeys(heads, of.mask, (b, h), span, lanes)
                with T.serial(blocks.key_blocks) as part:
                    first, done = blocks.first_key(part)
                    among = seen.of_block(first, done)
                    bias = bias_of(heads, of.mask, (b, h), span, first, lanes)
                    span.panel(
                        lambda at: run.adjoints(
                            at,
                            among,
                            lambda n, d: keys(first + n, d),
                            lambda n, e: values(first + n, e),
                            bias,
                        )
                    )
                    run.add_keys(first, among, *sums)
                    run.add_queries(among, lambda n, d: keys(first + n, d))
                run.finish(of.dq.of(b, h))
            for each in sums:
                each.finish()
    return made()


class _Sum:
    """The adjoint of a head's keys or values, which all queries add to.

    Where vectors do not cover a step, it is summed up in a tensor with longer ones.

    Args:
        argument: the result.
        b: the sample.
        h: the head.
        machine: the CPU.
    """

    def __init__(self, argument: HeadTensor, b: ir.Expr, h: ir.Expr, machine: Machine) -> None:
        self._matrix, self._lanes = argument.of(b, h), machine.lanes
        self._buffer = argument.buffer
        self._steps = int(argument.buffer.shape[1 if argument.inner else 2])
        self.width = int(argument.buffer.shape[3])
        padded = -(-self.width // self._lanes) * self._lanes
        self._copy: tirx.Buffer | None = None
        if padded > self.width:
            self._copy = T.sblock_alloc_buffer((self._steps, padded), "float32")
        with T.grid(self._steps, padded // self._lanes) as (n, v):
            place = self._place(n, ramp(v * self._lanes, self._lanes))
            T.buffer_store(self._target, zeros(self._lanes), place)

    @property
    def _target(self) -> tirx.Buffer:
        return self._buffer if self._copy is None else self._copy

    def _place(self, n: ir.Expr, at: ir.Expr) -> list[ir.Expr]:
        return self._matrix.place(n, at) if self._copy is None else [n, at]

    def add(self, n: ir.Expr, at: ir.Expr, value: ir.Expr) -> None:
        """Emits the sum of a vector."""
        place = self._place(n, at)
        old = tirx.BufferLoad(self._target, place)
        T.buffer_store(self._target, old + value, place)

    def finish(self) -> None:
        """Emits the store of what was summed up elsewhere."""
        if self._copy is not None:
            self._matrix.store(0, self._steps, self._copy, self._lanes)


class _Block:
    """A block of queries, while it runs over the keys.

    Args:
        heads: sizes and layout.
        blocks: how queries and keys are cut.
        span: the queries.
        machine: the CPU.
    """

    def __init__(
        self, heads: Heads, blocks: AttentionBlocks, span: QuerySpan, machine: Machine
    ) -> None:
        self._heads, self._blocks, self._span, self._machine = heads, blocks, span, machine
        lanes = machine.lanes
        self._width, self._depth = (
            -(-size // lanes) * lanes for size in (heads.width, heads.depth)
        )
        self._shares, self._adjoints = (
            T.sblock_alloc_buffer((blocks.block, blocks.most), "float32") for _ in range(2)
        )
        self._result = T.sblock_alloc_buffer((blocks.most, self._width), "float32")
        if blocks.key_blocks > 1:
            fill_rows(self._result, lanes)

    def load(
        self,
        matrices: Sequence[Matrix],
        numbers: tuple[tirx.Buffer, tirx.Buffer],
        head: tuple[ir.Expr, ir.Expr],
    ) -> None:
        """Emits the copies that all keys read.

        Args:
            matrices: queries, the result's adjoint and the result.
            numbers: what the forward pass kept of each query.
            head: sample and head.
        """
        q, dy, out = matrices
        heads, most, lanes = self._heads, self._blocks.most, self._machine.lanes
        self._q_across = T.sblock_alloc_buffer((heads.width, most), "float32")
        self._span.across(q, self._q_across, lanes, heads.scale)
        self._dy_across, across = (
            T.sblock_alloc_buffer((heads.depth, most), "float32") for _ in range(2)
        )
        self._span.across(dy, self._dy_across, lanes)
        self._span.across(out, across, lanes)
        self._top, self._share = (
            self._span.numbers(lambda m, buffer=buffer: buffer[*head, m]) for buffer in numbers
        )
        self._mean = T.sblock_alloc_buffer((most,), "float32")
        with T.serial(most // lanes) as v:
            at = ramp(v * lanes, lanes)
            total = T.sblock_alloc_buffer((lanes,), "float32")
            near = [ramp(index(0), lanes)]
            T.buffer_store(total, zeros(lanes), near)
            with T.serial(heads.depth) as e:
                term = self._dy_across[e, at] * across[e, at]
                T.buffer_store(total, tirx.BufferLoad(total, near) + term, near)
            T.buffer_store(self._mean, tirx.BufferLoad(total, near), [at])
        first = self._span.start + self._span.done
        count = self._span.count - self._span.done
        self._q, self._dy = (each.near(first, count, most, lanes) for each in (q, dy))

    def adjoints(
        self, at: ir.Expr, among: KeyRange, keys: Read, values: Read, bias: Bias | None
    ) -> None:
        """Emits probabilities, and the adjoints of scores times the scale, of a panel.

        Args:
            at: first query of the panel.
            among: the keys.
            keys: `(n, d)` to an element.
            values: `(n, e)` to an element.
            bias: the mask.
        """
        heads, blocks = self._heads, self._blocks
        scores(blocks, at, heads.width, keys, self._q_across, self._shares, among)
        scores(blocks, at, heads.depth, values, self._dy_across, self._adjoints, among)

        def vector(n: ir.Expr, span: ir.Expr) -> None:
            mask = bias and bias(n, span)
            score = masked(heads, self._shares[n, span], mask)
            p = tirx.exp(score - self._top[span]) * self._share[span]
            if heads.safe:
                none = zeros(self._machine.lanes)
                p = tirx.Select(self._share[span] > none, p, none)
            T.buffer_store(self._shares, p, [n, span])
            ds = self._shares[n, span] * (self._adjoints[n, span] - self._mean[span])
            T.buffer_store(self._adjoints, unmasked(heads, ds * heads.scale, mask), [n, span])

        blocks.each_vector(among, at, vector)

    def add_keys(self, first: ir.Expr, among: KeyRange, dk: _Sum, dv: _Sum) -> None:
        """Emits what a block of queries adds to the adjoints of a block of keys and values."""
        done, block = self._span.done, self._blocks.block
        tiles = [tile_within(self._machine, block, total.width) for total in (dk, dv)]
        if not among.is_whole:
            self._clear_around(among, max(tile.rows for tile in tiles))
        for tile, total, left, right in zip(
            tiles, (dk, dv), (self._adjoints, self._shares), (self._q, self._dy), strict=True
        ):
            add_product(
                *(tile, total.width, block, self._span.count - done),
                lambda n, m, left=left: left[n, done + m],
                right,
                lambda n, at, value, total=total: total.add(first + n, at, value),
                among=among,
            )

    def _clear_around(self, among: KeyRange, rows: int) -> None:
        """Emits zeros for keys beside a range, which tiles of so many rows reach."""
        size, lanes = index(self._blocks.block), self._machine.lanes
        before = T.Bind(tirx.max(among.first - rows, index(0)))
        behind = T.Bind(tirx.min(among.end + rows, size))
        for begin, end in ((before, among.first), (among.end, behind)):
            with T.serial(end - begin) as i, T.serial(self._blocks.most // lanes) as v:
                for buffer in (self._shares, self._adjoints):
                    place = [begin + i, ramp(v * lanes, lanes)]
                    T.buffer_store(buffer, zeros(lanes), place)

    def add_queries(self, among: KeyRange, keys: Read) -> None:
        """Emits what a block of keys adds to the adjoints of the queries."""

        def store(m: ir.Expr, at: ir.Expr, value: ir.Expr) -> None:
            if self._blocks.key_blocks > 1:
                value = self._result[m, at] + value
            T.buffer_store(self._result, value, [m, at])

        columns = self._blocks.tile.columns
        add_product(
            tile_within(self._machine, self._blocks.most, self._heads.width, columns),
            self._width,
            self._span.panels * columns,
            among.count,
            lambda m, n: self._adjoints[among.first + n, m],
            lambda n, d: keys(among.first + n, d),
            store,
        )

    def finish(self, dq: Matrix) -> None:
        """Emits the stores of the adjoints of the queries."""
        dq.store(self._span.start, self._span.count, self._result, self._machine.lanes)
