"""The logits of a large vocabulary exist for some tokens at a time, and so do their gradients.

The product with a head's weights gives a number of each word for every token, and a loss takes few
numbers of each token from them. The derivative that it brings goes back through the same product.
All that lies between can run some tokens at a time, forward and backward at once, as the kernels of
Liger do: no logits are computed twice.

    logits = x w';  loss = l(logits);  slope = l'(logits);  dx = slope w;  dw = slope' x
      ─chunk-logits→
    for rows of x:  logits = rows w';  ...;  dx rows = slope w;  dw += slope' rows

Sums over tokens, such as the gradient of the weights, grow from chunk to chunk, in their order.
What is between may be anything that treats tokens alike: a bias, a cap, label smoothing. Only what
saves bytes is cut: a gradient of the weights that was made in pieces has to exist as a whole then.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import tvm
from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.core.ir.relax_calls import is_call
from odtc.core.ir.tensor_tags import on_the_way
from odtc.passes.chunks.forms import Kind, part_of
from odtc.passes.chunks.regions import Closed, Regions
from odtc.passes.chunks.rows import Chunk, row_rank, shape_of
from odtc.passes.contract import Pass
from odtc.passes.graph.absorb_transpose import Product
from odtc.passes.ir.bindings import bind, bindings_of, rebuilding

# More chunks read the weights too often, and are too many calls.
_MOST_CHUNKS = 16


@dataclass(frozen=True)
class ChunkLogits(Pass):
    """Cuts the region around each product of many words by rows, where that saves bytes.

    Attributes:
        rows: of a chunk, at most, as long as there are no more than 16 chunks.
        words: columns of a product, at least: wider than a layer inside of a network.
        least: bytes that have to be saved.
        product: makes the kernel of a product that is added to a tensor.
        writes_over: whether a sum grows in place.
    """

    name: ClassVar[str] = "chunk-logits"
    rows: int = 64
    words: int = 1 << 14
    least: int = 4 << 20
    product: Product = field(repr=False, kw_only=True)
    writes_over: bool = field(default=True, repr=False)

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites the functions, which are one dataflow block each."""
        for variable, function in module.functions_items():
            if isinstance(function, relax.Function):
                module = self._rewritten(module, variable.name_hint)
        return module

    def _rewritten(self, module: tvm.IRModule, name: str) -> tvm.IRModule:
        # Products of chunks are not cut again.
        given = {binding.var for binding in bindings_of(module[name])}
        while True:
            found = Regions(module[name]).closed(self.words, given)
            closed = next((each for each in found if self._saved(each) >= self.least), None)
            if closed is None:
                return module
            with rebuilding(module, name) as builder:
                self._emit(builder, module[name], closed)
            module = builder.finalize()

    def _sizes(self, rows: int) -> list[int]:
        """Rows of each chunk; alike where a number of chunks divides them, so that kernels are."""
        fewest = min(-(-rows // self.rows), _MOST_CHUNKS)
        most = min(fewest * 3 // 2, _MOST_CHUNKS)
        count = next((n for n in range(fewest, most + 1) if rows % n == 0), fewest)
        each = -(-rows // count)
        return [min(each, rows - start) for start in range(0, rows, each)]

    def _saved(self, closed: Closed) -> int:
        """Bytes that a step holds less: gradients are made one at a time, or grow side by side."""
        sums, rows = closed.sums, closed.region.rows
        copies = 1 if self.writes_over else 2
        largest = max(sums, default=0)
        before = copies * closed.wide + largest
        after = copies * closed.wide * self._sizes(rows)[0] // rows + sum(sums)
        return before - after - (copies - 1) * largest

    def _emit(self, builder: relax.BlockBuilder, function: relax.Function, closed: Closed) -> None:
        """Emits all bindings; the region's once all that it reads is there."""
        inside = closed.region.inside
        missing = {
            each
            for binding in closed.bindings
            for each in relax.analysis.free_vars(binding.value)
            if each not in inside
        } - set(function.params)
        waiting: list[relax.Binding] = []
        is_emitted = False
        for binding in bindings_of(function):
            if binding.var not in inside:
                if binding.var in closed.reached and not is_emitted:
                    waiting.append(binding)
                    continue
                bind(builder, binding.var, binding.value)
                missing.discard(binding.var)
            if not missing and not is_emitted:
                is_emitted = True
                self._emit_region(builder, closed)
                for each in waiting:
                    bind(builder, each.var, each.value)

    def _emit_region(self, builder: relax.BlockBuilder, closed: Closed) -> None:
        region, start = closed.region, 0
        rows: dict[relax.Var, list[relax.Expr]] = {
            each: [] for each in closed.results if closed.kinds[each] is Kind.ROWS
        }
        totals: dict[relax.Var, relax.Expr] = {}
        for size in self._sizes(region.rows):
            chunk = Chunk(builder, region.rows, start, size)
            start += size
            for binding in closed.bindings:
                result, value = binding.var, part_of(region, chunk, binding.value)
                is_sum = closed.kinds[result] is Kind.SUM
                if is_sum and result in totals:
                    value = self._onto(builder, value, totals[result])
                if is_sum and start == region.rows:
                    bind(builder, result, value)
                    continue
                part = builder.emit(value, on_the_way(result.name))
                if is_sum:
                    totals[result] = part
                else:
                    chunk.parts[result] = part
                if result in rows:
                    rows[result].append(part)
        for result, parts in rows.items():
            bind(builder, result, _joined(builder, region.rows, result, parts))

    def _onto(
        self, builder: relax.BlockBuilder, value: relax.Expr, before: relax.Expr
    ) -> relax.Expr:
        """What a chunk adds to a sum, and the sum."""
        if not is_call(value, "relax.matmul"):
            return R.add(before, builder.emit(value))
        turned, right = value.args
        left = builder.lookup_binding(turned).args[0]
        kernel = builder.add_func(self.product(left, right, True, False), "matmul_onto")
        return relax.call_tir(kernel, relax.Tuple([left, right, before]), before.ty)


def _joined(
    builder: relax.BlockBuilder, rows: int, result: relax.Var, parts: list[relax.Expr]
) -> relax.Expr:
    """A result of all rows."""
    joined = R.concat(parts, 0)
    if row_rank(result, rows) == 1:
        return joined
    return R.reshape(builder.emit(joined, on_the_way(result.name)), shape_of(result))
