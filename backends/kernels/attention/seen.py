"""Which keys of a block some query of a block sees: of others nothing is computed.

A causal mask hides half of all keys, one of a sliding window more, one of padding what a batch
pads. What is hidden has a probability of exactly 0, so results stay as they are. The mask says it
when the step runs, since masks of padding are fed.
"""

from collections.abc import Sequence

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.attention.blocks import KeyRange, QuerySpan
from odtc.backends.kernels.attention.layout import Heads, zeros
from odtc.backends.kernels.common.places import index
from odtc.backends.kernels.common.vectors import each_block, lane_total, ramp, splat

# What such an element of a mask hides has no power beside a score that it does not hide: minus
# infinity, float32's lowest number, and sums of these with others, but not -1e9.
_HIDDEN = -1e30


class SeenKeys:
    """The keys that a block of queries sees; emits what looks at their mask.

    Where a query sees none, all keys have a share in its result, and they all are seen.

    Args:
        heads: the attention.
        mask: the argument.
        place: sample and head.
        span: the queries.
        lanes: elements of a vector.
    """

    def __init__(
        self,
        heads: Heads,
        mask: tirx.Buffer | None,
        place: Sequence[ir.Expr],
        span: QuerySpan,
        lanes: int,
    ) -> None:
        self._blocks = span.blocks
        self._seen: tirx.Buffer | None = None
        if mask is None or heads.mask[3] == 1:
            return
        at = [each if size > 1 else index(0) for each, size in zip(place, heads.mask, strict=False)]
        self._seen = T.sblock_alloc_buffer((heads.keys,), "float32")
        self._blind = T.sblock_alloc_buffer((1,), "int32")
        T.buffer_store(self._blind, index(0), [0])
        self._clear(heads.keys, lanes)
        rows = index(1) if heads.mask[2] == 1 else span.count
        with T.serial(rows) as i:
            row = index(0) if heads.mask[2] == 1 else T.Bind(span.start + i)
            self._add(mask, [*at, row], heads.keys, lanes)

    def _clear(self, keys: int, lanes: int) -> None:
        def block(start: ir.Expr | int, width: int) -> None:
            assert self._seen is not None
            T.buffer_store(self._seen, zeros(width), [ramp(index(start), width)])

        each_block(keys, lanes, block)

    def _add(self, mask: tirx.Buffer, row: Sequence[ir.Expr], keys: int, lanes: int) -> None:
        """Emits what a query sees."""
        lanes = min(lanes, 1 << (keys.bit_length() - 1))
        own, all_lanes = T.sblock_alloc_buffer((lanes,), "float32"), [ramp(index(0), lanes)]
        T.buffer_store(own, zeros(lanes), all_lanes)

        def block(start: ir.Expr | int, width: int) -> None:
            assert self._seen is not None
            at = ramp(index(start), width)
            value = tirx.BufferLoad(mask, [*row, at])
            # A NaN is seen.
            hidden = value <= splat(tirx.const(_HIDDEN, "float32"), width)
            one = splat(tirx.const(1.0, "float32"), width)
            for buffer, place in ((self._seen, [at]), (own, all_lanes)):
                old = tirx.BufferLoad(buffer, place)
                T.buffer_store(buffer, tirx.Select(hidden, old, one), place)

        each_block(keys, lanes, block)
        total = lane_total(tirx.BufferLoad(own, all_lanes), lanes)
        is_blind = total == tirx.const(0.0, "float32")
        T.buffer_store(self._blind, tirx.Select(is_blind, index(1), self._blind[0]), [0])

    def of_block(self, first: ir.Expr, done: ir.Expr) -> KeyRange:
        """Emits the range of those of a block of keys that is new.

        Args:
            first: key that the block begins with.
            done: how many of its first ones the block before has, too.
        """
        size = self._blocks.block
        if self._seen is None:
            is_whole = self._blocks.keys % size == 0
            return KeyRange(done, index(size), is_whole)
        ends = T.sblock_alloc_buffer((2,), "int32")
        T.buffer_store(ends, index(size), [0])
        T.buffer_store(ends, index(0), [1])
        with T.serial(size) as n:
            sees = self._seen[first + n] > 0.0
            T.buffer_store(ends, tirx.Select(tirx.all(sees, n < ends[0]), n, ends[0]), [0])
            T.buffer_store(ends, tirx.Select(sees, n + 1, ends[1]), [1])
        is_blind = self._blind[0] > 0
        end = T.Bind(tirx.Select(is_blind, index(size), ends[1]))
        begin = T.Bind(tirx.Select(is_blind, index(0), ends[0]))
        begin = T.Bind(tirx.Select(begin < done, done, begin))
        return KeyRange(T.Bind(tirx.Select(begin < end, begin, end)), end, is_whole=False)
