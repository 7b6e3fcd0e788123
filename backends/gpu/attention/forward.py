"""Attention forward on a GPU: a block of queries for each group, which runs over all keys.

Scores are in registers, and powers in the memory of the group, as long as they are multiplied by
values (Dao et al., "FlashAttention", 2022).
"""

import numpy as np
from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.gpu.attention.group import Group
from odtc.backends.gpu.attention.memory import registers
from odtc.backends.gpu.attention.scores import ScoreOf
from odtc.backends.gpu.attention.tile import AttentionTile, columns_of
from odtc.backends.gpu.multiply import Accumulators
from odtc.backends.kernels.attention.arguments import forward_arguments
from odtc.backends.kernels.attention.layout import Heads, HeadTensor
from odtc.backends.kernels.common.places import unflatten
from odtc.backends.kernels.rows.passes import add, row_kernel
from odtc.passes.kernel.keep_nan import larger_number

# Float32's lowest number, by its bits: TVM writes seven digits of a number into source. The largest
# score starts there, as on a CPU, since a difference to it is never NaN.
_LOWEST = int(np.float32(np.finfo(np.float32).min).view(np.uint32))


def attention_on_gpu(heads: Heads, tile: AttentionTile) -> tirx.PrimFunc:
    """A kernel `(q, k, v, [mask], out, top, share)`, as `attention_kernel` of CPUs.

    Args:
        heads: sizes and layout.
        tile: how it is cut.
    """
    blocks = -(-heads.queries // tile.height)
    with row_kernel("attention") as made:
        of = forward_arguments(heads)
        with (
            T.thread_binding(heads.batch * heads.heads * blocks, "blockIdx.x") as number,
            T.thread_binding(tile.items, "threadIdx.x") as item,
            T.sblock("attention"),
        ):
            b, h, block = unflatten(number, (heads.batch, heads.heads, blocks))
            group = Group(heads, tile, (b, h, block), item)
            rows = _Rows(group)
            with T.serial(-(-heads.keys // tile.width)) as part:
                first = part * tile.width
                found = group.product(of.q, of.k, first)
                rows.soften(found, first, of.mask)
                group.keep(found)
                group.add(rows.means, of.v, first)
            rows.finish(of.out, of.top, of.share)
    return made()


class _Rows:
    """The state of an item's queries while its group runs over the keys.

    Args:
        group: it.

    Attributes:
        means: sums of the values times their powers.
    """

    def __init__(self, group: Group) -> None:
        self._group, self._heads, self._tile = group, group.heads, group.tile
        self.means = group.sums(columns_of(group.heads.depth))
        self._top, self._total, self._best = (registers(self._tile.rows) for _ in range(3))
        with T.unroll(self._tile.rows) as i:
            T.buffer_store(self._top, _lowest(), [i])
            T.buffer_store(self._total, _float(0.0), [i])

    def soften(self, found: Accumulators, first: ir.Expr, mask: tirx.Buffer | None) -> None:
        """Emits powers in place of products, and their sums; what was there before shrinks.

        Args:
            found: products of queries and keys.
            first: of the keys.
            mask: the argument.
        """
        group, heads, tile = self._group, self._heads, self._tile
        top, total, best = self._top, self._total, self._best
        is_cut = heads.queries % tile.height > 0, heads.keys % tile.width > 0

        def score(i: ir.Expr, j: int) -> ScoreOf:
            query, key = group.start + group.row + i, first + found.column(j, group.x)
            return ScoreOf(heads, mask, group.b, group.h, query, key, is_cut)

        with T.unroll(tile.rows) as i:
            T.buffer_store(best, top[i], [i])
            for j in range(tile.columns):
                place = score(i, j)
                value = place.of(tirx.BufferLoad(found.results, [i, j]), place.bias())
                T.buffer_store(found.results, value, [i, j])
                value = place.where_there(found.results[i, j], _lowest())
                T.buffer_store(best, larger_number(best[i], value), [i])
        group.memory.combined(best, larger_number)
        with T.unroll(tile.rows) as i:
            shrink = T.Bind(tirx.exp(top[i] - best[i]))
            T.buffer_store(top, best[i], [i])
            T.buffer_store(total, total[i] * shrink, [i])
            with T.unroll(columns_of(heads.depth)) as e:
                T.buffer_store(self.means.results, self.means.results[i, e] * shrink, [i, e])
            for j in range(tile.columns):
                power = T.Bind(tirx.exp(found.results[i, j] - top[i]))
                power = T.Bind(score(i, j).where_there(power, _float(0.0)))
                T.buffer_store(found.results, power, [i, j])
                T.buffer_store(total, total[i] + power, [i])

    def finish(self, out: HeadTensor, top: tirx.Buffer, share: tirx.Buffer) -> None:
        """Emits the stores of the results: `out`, the largest scores, and the shares."""
        group, heads, total = self._group, self._heads, self._total
        group.memory.combined(total, add)
        with T.unroll(self._tile.rows) as i:
            factor = 1.0 / total[i]
            if heads.safe:
                # The sum is zero, or NaN, where the softmax would be NaN.
                factor = tirx.Select(total[i] > 0.0, factor, _float(0.0))
            T.buffer_store(self._best, factor, [i])
            query = group.start + group.row + i
            with T.If(tirx.all(query < heads.queries, tirx.EQ(group.x, 0))), T.Then():
                T.buffer_store(top, self._top[i], [group.b, group.h, query])
                T.buffer_store(share, self._best[i], [group.b, group.h, query])
            with T.unroll(columns_of(heads.depth)) as e:
                value = self.means.results[i, e] * self._best[i]
                if heads.safe:
                    value = tirx.Select(total[i] > 0.0, value, _float(0.0))
                T.buffer_store(self.means.results, value, [i, e])
        group.store(self.means, out, heads.queries)


def _lowest() -> ir.Expr:
    return tirx.reinterpret("float32", tirx.const(_LOWEST, "uint32"))


def _float(value: float) -> ir.Expr:
    return tirx.const(value, "float32")
