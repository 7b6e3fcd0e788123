"""Attention forward: `softmax(scale * q k' + mask) v`, a block of queries at a time.

The largest score of each query and its sum run over blocks of keys, and what was added up so far is
scaled when the largest grows (Dao et al., "FlashAttention", 2022).
"""

import numpy as np
from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.attention.arguments import forward_arguments
from odtc.backends.kernels.attention.blocks import AttentionBlocks, KeyRange, QuerySpan
from odtc.backends.kernels.attention.layout import Heads, Matrix, fill_rows, zeros
from odtc.backends.kernels.attention.scores import (
    Bias,
    add_product,
    bias_of,
    masked,
    scores,
    tile_within,
)
from odtc.backends.kernels.attention.seen import SeenKeys
from odtc.backends.kernels.common.places import unflatten
from odtc.backends.kernels.common.vectors import ramp, splat
from odtc.backends.kernels.product.tile import Machine
from odtc.backends.kernels.rows.passes import row_kernel
from odtc.passes.kernel.keep_nan import larger_number

# Where the largest score starts: below it no score counts, and a difference to it is never NaN.
_LOWEST = float(np.finfo(np.float32).min)


def attention_kernel(heads: Heads, machine: Machine) -> tirx.PrimFunc:
    """A kernel `(q, k, v, [mask], out, top, share)`, float32.

    `top` is the largest score of each query, `share` one over the sum of the others' powers: the
    backward pass makes probabilities of scores with them.

    Args:
        heads: sizes and layout.
        machine: the CPU.
    """
    blocks, lanes = AttentionBlocks.of(heads, machine), machine.lanes
    with row_kernel("attention") as made:
        of = forward_arguments(heads)
        with T.parallel(heads.batch * heads.heads * blocks.query_blocks) as task:
            b, h, block = unflatten(task, (heads.batch, heads.heads, blocks.query_blocks))
            span = blocks.span(block)
            rows = _Rows(heads, blocks, span, machine)
            right = T.sblock_alloc_buffer((heads.width, blocks.most), "float32")
            span.across(of.q.of(b, h), right, lanes, heads.scale)
            keys = of.k.of(b, h).near(0, heads.keys, heads.keys, lanes)
            values = of.v.of(b, h).near(0, heads.keys, heads.keys, lanes)
            seen = SeenKeys(heads, of.mask, (b, h), span, lanes)
            with T.serial(blocks.key_blocks) as part:
                first, done = blocks.first_key(part)
                among = seen.of_block(first, done)
                bias = bias_of(heads, of.mask, (b, h), span, first, lanes)

                def panel(at: ir.Expr) -> None:
                    scores(
                        *(blocks, at, heads.width),
                        lambda n, d: keys(first + n, d),
                        *(right, rows.powers, among),
                    )
                    rows.soften(at, among, bias)

                span.panel(panel)
                rows.add_values(among, lambda n, e: values(first + n, e))
            rows.finish(of.out.of(b, h), of.top, of.share)
    return made()


class _Rows:
    """State of a block of queries while it runs over the keys (scores, maxima, sums).

    Args:
        heads: sizes and layout.
        blocks: how queries and keys are cut.
        span: the queries.
        machine: the CPU.
    """

    def __init__(
        self, heads: Heads, blocks: AttentionBlocks, span: QuerySpan, machine: Machine
    ) -> None:
        self._heads, self._blocks, self._span = heads, blocks, span
        self._lanes, self._is_in_order = machine.lanes, machine.blocked > 0
        self._tile = tile_within(machine, blocks.most, heads.depth, blocks.tile.columns)
        self._width = -(-heads.depth // machine.lanes) * machine.lanes
        self.powers = T.sblock_alloc_buffer((blocks.block, blocks.most), "float32")
        self._result = T.sblock_alloc_buffer((blocks.most, self._width), "float32")
        self._top, self._total, self._shrink = (
            T.sblock_alloc_buffer((blocks.most,), "float32") for _ in range(3)
        )
        with T.serial(blocks.most) as i:
            T.buffer_store(self._top, tirx.const(_LOWEST, "float32"), [i])
            T.buffer_store(self._total, tirx.const(0.0, "float32"), [i])
        if blocks.key_blocks > 1:
            fill_rows(self._result, machine.lanes)

    def soften(self, at: ir.Expr, among: KeyRange, bias: Bias | None) -> None:
        """Emits powers in place of the scores of a panel, and their sums.

        Args:
            at: first query of the panel.
            among: the keys.
            bias: the mask.
        """
        tile, powers = self._blocks.tile, self.powers
        spans = [(tile.span(v), tile.span(v, at)) for v in range(tile.vectors)]
        held = T.sblock_alloc_buffer((tile.columns,), "float32")
        for near, far in spans:
            T.buffer_store(held, self._top[far], [near])
        with T.serial(among.count) as i:
            n = T.Bind(among.first + i)
            for near, far in spans:
                score = masked(self._heads, powers[n, far], bias and bias(n, far))
                if bias is not None:
                    T.buffer_store(powers, score, [n, far])
                T.buffer_store(held, larger_number(held[near], powers[n, far]), [near])
        for near, far in spans:
            if self._blocks.key_blocks > 1:
                T.buffer_store(self._shrink, tirx.exp(self._top[far] - held[near]), [far])
                T.buffer_store(self._total, self._total[far] * self._shrink[far], [far])
            T.buffer_store(self._top, held[near], [far])

        def power(n: ir.Expr, far: ir.Expr) -> None:
            T.buffer_store(powers, tirx.exp(powers[n, far] - self._top[far]), [n, far])
            T.buffer_store(self._total, self._total[far] + powers[n, far], [far])

        if self._is_in_order:
            # LLVM unrolls a loop along keys for such a core, and powers do not fit in registers.
            self._blocks.each_vector(among, at, power)
            return
        # Along the keys of a vector no index has to be taken apart, and its sum is in a register.
        with T.serial(tile.vectors) as v, T.serial(among.count) as i:
            power(T.Bind(among.first + i), tile.span(v, at))

    def add_values(self, among: KeyRange, right: Bias) -> None:
        """Emits the product of the powers and the values `(n, e)` of a block of keys."""

        def store(m: ir.Expr, at: ir.Expr, value: ir.Expr) -> None:
            if self._blocks.key_blocks > 1:
                shrink = splat(self._shrink[m], self._lanes)
                value = self._result[m, at] * shrink + value
            T.buffer_store(self._result, value, [m, at])

        add_product(
            self._tile,
            self._width,
            self._span.panels * self._blocks.tile.columns,
            among.count,
            lambda m, n: self.powers[among.first + n, m],
            lambda n, e: right(among.first + n, e),
            store,
        )

    def finish(self, out: Matrix, top: tirx.Buffer, share: tirx.Buffer) -> None:
        """Emits the stores of the results: `out`, the largest scores, and the shares."""
        zero = tirx.const(0.0, "float32")
        with T.serial(self._span.count) as m:
            total, place = self._total[m], [out.b, out.h, self._span.start + m]
            factor = 1.0 / total
            if self._heads.safe:
                # The sum is zero, or NaN, where the softmax would be NaN.
                factor = tirx.Select(total > 0.0, factor, zero)
            T.buffer_store(share, factor, place)
            T.buffer_store(top, self._top[m], place)
            with T.serial(self._width // self._lanes) as v:
                span = ramp(v * self._lanes, self._lanes)
                value = self._result[m, span] * splat(share[*place], self._lanes)
                if self._heads.safe:
                    alive = splat(total, self._lanes) > zeros(self._lanes)
                    value = tirx.Select(alive, value, zeros(self._lanes))
                T.buffer_store(self._result, value, [m, span])
        out.store(self._span.start, self._span.count, self._result, self._lanes)
