"""The gradient of reading rows by index on a GPU: sums over sorted indices, in parts.

    indices ─rank→ order, by row ─parts of `_PART` indices→ rows that end within; others' sums
    sums of rows that go over several parts ─added in order→ their rows

Indices of one row are neighbours once they are sorted, so a work-item adds up a column of some of
them in a register and writes each row once. Indices of the same row stay in their order, and every
sum is taken in a fixed one: a step gives the same bits each time. An index that a table has often,
as that of a segment's type, is shared by as many parts as it fills.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tvm import ir, relax, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.operand import shape_of
from odtc.backends.kernels.gather.take import apply_kernel, around
from odtc.backends.kernels.rows.passes import row_kernel
from odtc.core.ir.kernel_marks import INDEPENDENT

Rule = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]

# Sorted indices whose rows a work-item adds up.
_PART = 32
# Items of a launch, at least.
_LEAST_ITEMS = 3
# Indices that a work-item compares one with, to find how many come before it.
_COMPARED = 256


def take_gradient_rules() -> dict[str, Rule]:
    """Legalisation rules for `relax.transform.LegalizeOps`, by operator."""
    return {"relax.grad.take_backward": _lower}


@dataclass(frozen=True)
class GradientExtent:
    """Sizes of such a gradient.

    Attributes:
        outer: matrices.
        size: rows of each.
        inner: elements of a row.
        count: indices.
    """

    outer: int
    size: int
    inner: int
    count: int

    @property
    def parts(self) -> int:
        """Of the sorted indices."""
        return -(-self.count // _PART)


def take_gradient_kernel(extent: GradientExtent, dtype: str, index: str) -> tirx.PrimFunc:
    """A kernel `(adjoint [outer, count, inner], indices [count], result [outer, size, inner])`.

    Args:
        extent: its sizes.
        dtype: of the elements.
        index: dtype of the indices.
    """
    outer, size, inner, count = extent.outer, extent.size, extent.inner, extent.count
    with row_kernel("take_gradient") as made:
        adjoint = T.arg("adjoint", T.buffer((outer, count, inner), dtype))
        indices = T.arg("indices", T.buffer((count,), index))
        result = T.arg("result", T.buffer((outer, size, inner), dtype))
        order = _Order(indices, size)
        # What a part adds to the row that it begins within, and to the one that it ends within.
        begun, ended = (
            T.sblock_alloc_buffer((outer, extent.parts, inner), dtype) for _ in range(2)
        )
        with (
            T.parallel(outer * size) as row,
            T.serial(inner, annotations={INDEPENDENT: inner}) as column,
            T.sblock("zero"),
        ):
            r, i = T.axis.spatial(outer * size, row), T.axis.spatial(inner, column)
            T.buffer_store(result, tirx.const(0, dtype), [r // size, r % size, i])
        _emit_parts(extent, order, adjoint, (begun, ended, result))
        _emit_across(extent, order, (begun, ended, result))
    return made()


class _Order:
    """The indices of a table's rows in the order of the rows, which it emits the sorting of.

    Args:
        indices: of rows; those below zero count from the end.
        size: rows of the table.

    Attributes:
        numbers: of the indices, by rank.
    """

    def __init__(self, indices: tirx.Buffer, size: int) -> None:
        self._count = count = int(indices.shape[0])
        found, self.numbers, self._rows = (
            T.sblock_alloc_buffer((count,), "int32") for _ in range(3)
        )
        with _items("row", count) as n:
            T.buffer_store(found, tirx.floormod(indices[n], size).astype("int32"), [n])
        counts = self._emit_counts(found)
        with _items("rank", count) as n:
            T.reads(_whole(found), _whole(counts))
            T.writes(_whole(self.numbers), _whole(self._rows))
            rank = T.sblock_alloc_buffer((1,), "int32", scope="local")
            T.buffer_store(rank, tirx.const(0, "int32"), [0])
            with T.serial(int(counts.shape[0])) as piece:
                T.buffer_store(rank, rank[0] + counts[piece, n], [0])
            T.buffer_store(self.numbers, n, [rank[0]])
            T.buffer_store(self._rows, found[n], [rank[0]])

    def _emit_counts(self, found: tirx.Buffer) -> tirx.Buffer:
        """Emits how many of each piece of the indices come before an index: `[piece, index]`."""
        count = self._count
        pieces = -(-count // _COMPARED)
        counts = T.sblock_alloc_buffer((pieces, count), "int32")
        with _items("count", pieces * count) as item:
            piece, n = item // count, item % count
            T.reads(_whole(found))
            T.writes(counts[piece, n])
            before = T.sblock_alloc_buffer((1,), "int32", scope="local")
            T.buffer_store(before, tirx.const(0, "int32"), [0])
            with _steps(piece, _COMPARED, count) as m:
                is_equal = tirx.all(tirx.EQ(found[m], found[n]), m < n)
                is_before = tirx.any(found[m] < found[n], is_equal)
                T.buffer_store(before, before[0] + is_before.astype("int32"), [0])
            T.buffer_store(counts, before[0], [piece, n])
        return counts

    @property
    def read(self) -> list[tirx.BufferRegion]:
        """What launches read of it."""
        return [_whole(self.numbers), _whole(self._rows)]

    def row(self, rank: ir.Expr) -> ir.Expr:
        """The row of an index by its rank, or of the nearest one that there is."""
        return self._rows[tirx.max(tirx.min(rank, self._count - 1), 0)]

    def goes_on(self, rank: ir.Expr, row: ir.Expr) -> ir.Expr:
        """Whether there is such a rank, and it is of the row."""
        return tirx.all(rank >= 0, rank < self._count, tirx.EQ(self.row(rank), row))

    def end(self, part: ir.Expr) -> ir.Expr:
        """The rank after the last one of a part."""
        return tirx.min((part + 1) * _PART, self._count)


def _emit_parts(
    extent: GradientExtent,
    order: _Order,
    adjoint: tirx.Buffer,
    sums: tuple[tirx.Buffer, tirx.Buffer, tirx.Buffer],
) -> None:
    """Emits the launch that sums the rows of each part."""
    begun, ended, result = sums
    with _each(extent) as (o, part, i):
        T.reads(_whole(adjoint), *order.read)
        T.writes(*map(_whole, sums))
        total = T.sblock_alloc_buffer((1,), str(result.dtype), scope="local")
        T.buffer_store(total, tirx.const(0, str(result.dtype)), [0])
        with _steps(part, _PART, extent.count) as rank:
            row = order.row(rank)
            T.buffer_store(total, total[0] + adjoint[o, order.numbers[rank], i], [0])
            is_last = tirx.any(rank + 1 >= order.end(part), tirx.Not(order.goes_on(rank + 1, row)))
            with T.If(is_last), T.Then():
                with T.If(order.goes_on(part * _PART - 1, row)):
                    with T.Then():
                        T.buffer_store(begun, total[0], [o, part, i])
                    with T.Else(), T.If(order.goes_on(rank + 1, row)):
                        with T.Then():
                            T.buffer_store(ended, total[0], [o, part, i])
                        with T.Else():
                            T.buffer_store(result, total[0], [o, row, i])
                T.buffer_store(total, tirx.const(0, str(result.dtype)), [0])


def _emit_across(
    extent: GradientExtent, order: _Order, sums: tuple[tirx.Buffer, tirx.Buffer, tirx.Buffer]
) -> None:
    """Emits the launch that adds up the parts of each row which goes over several."""
    begun, ended, result = sums
    with _each(extent) as (o, part, i):
        T.reads(_whole(begun), _whole(ended), *order.read)
        T.writes(_whole(result))
        total = T.sblock_alloc_buffer((1,), str(result.dtype), scope="local")
        behind = T.sblock_alloc_buffer((1,), "int32", scope="local")
        row = order.row(order.end(part) - 1)
        begins = tirx.Not(order.goes_on(part * _PART - 1, row))
        with T.If(tirx.all(begins, order.goes_on(order.end(part), row))), T.Then():
            T.buffer_store(total, ended[o, part, i], [0])
            T.buffer_store(behind, part + 1, [0])
            with T.While(order.goes_on(behind[0] * _PART, row)):
                T.buffer_store(total, total[0] + begun[o, behind[0], i], [0])
                T.buffer_store(behind, behind[0] + 1, [0])
            T.buffer_store(result, total[0], [o, row, i])


@contextmanager
def _each(extent: GradientExtent) -> Iterator[tuple[ir.Expr, ir.Expr, ir.Expr]]:
    """A launch of an item for each matrix, part and column."""
    parts, inner = extent.parts, extent.inner
    with _items("item", extent.outer * parts * inner) as item:
        yield item // (parts * inner), item // inner % parts, item % inner


@contextmanager
def _items(name: str, count: int) -> Iterator[ir.Expr]:
    """A launch of so many items; its block has the name.

    A loop over one is none any more when it would be bound, and of a condition on two TVM makes the
    size of a buffer, which hangs on a variable then. So three items do the work of fewer.
    """
    items = max(count, _LEAST_ITEMS)
    with T.parallel(items) as each, T.sblock(name):
        item = T.axis.spatial(items, each)
        yield item if items == count else tirx.min(item, count - 1)


@contextmanager
def _steps(piece: ir.Expr, size: int, count: int) -> Iterator[ir.Expr]:
    """The numbers of a piece, of which the last may be shorter."""
    with T.serial(min(size, count)) as step:
        number = piece * size + step
        if count % size and count > size:
            with T.If(number < count), T.Then():
                yield number
        else:
            yield number


def _whole(buffer: tirx.Buffer) -> tirx.BufferRegion:
    return buffer[tuple(slice(0, int(size)) for size in buffer.shape)]


def _lower(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    adjoint, data, indices = call.args
    shape = shape_of(data)
    outer, size, inner = around(shape, int(call.attrs.axis))
    count = math.prod(shape_of(indices))
    extent = GradientExtent(outer, size, inner, count)
    kernel = take_gradient_kernel(extent, str(data.ty.dtype), str(indices.ty.dtype))
    operands = [(adjoint, (outer, count, inner)), (indices, (count,))]
    found = apply_kernel(builder, "take_gradient", kernel, operands, (outer, size, inner))
    return relax.op.reshape(found, shape)
