"""The gradient of a convolution's weights on a GPU, where it is a few sums over many positions.

    a group of items      one window of weights, or some that read the same channel of the image,
                          and a part of all positions
    an item               some strips, one after the other; all sums of the windows in registers
    at the end            items add up what they have, in a fixed order; a second kernel the parts

A row of the image meets each row of the window once for each row of results that it reaches, so
that it is read once for all of them.
"""

import functools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.gpu.grouped.strips import (
    Place,
    Strips,
    add_to,
    columns_forward,
    element,
    items,
    registers,
    sizes_of,
    strips_forward,
    strips_of,
    two_axes,
)
from odtc.backends.gpu.machine import Gpu
from odtc.backends.kernels.common.places import index, unflatten
from odtc.backends.kernels.convolution.grid import ConvolutionAxis
from odtc.backends.kernels.product.fused import Product

# Items of a group, parts of a sum, groups for each one that keeps the GPU busy, items that add up
# what all items have of a sum, and parts that are read at once: at most.
_ITEMS, _PARTS, _MORE_GROUPS, _ADDING, _AT_ONCE = 128, 64, 8, 16, 8
# Strips that an item takes where a sum has several parts, at least: a second kernel takes its time.
_LEAST_TURNS = 4
# Windows of a group, at most: each reads a gradient of its own, and all the same image.
MOST_WINDOWS = 4


@dataclass(frozen=True)
class _Cut:
    """How the positions of a sum are cut.

    Attributes:
        items: of a group.
        turns: strips that an item takes.
        parts: groups of a sum.
        total: strips of a sum.
    """

    items: int
    turns: int
    parts: int
    total: int

    @property
    def is_whole(self) -> bool:
        """Whether items have a strip in each of their turns."""
        return self.items * self.turns * self.parts == self.total


@dataclass(frozen=True)
class _Windows:
    """The windows of weights whose gradient a group adds up, which read one channel of the image.

    Attributes:
        count: of them: outputs that follow each other.
        taps: of each.
        channels: of the image that each output reads.
    """

    count: int
    taps: tuple[int, ...]
    channels: int

    def at(self, result: ir.Expr, number: ir.Expr | int) -> tuple[ir.Expr, ir.Expr]:
        """The output and the channel of a group's window."""
        return result // self.channels * self.count + number, result % self.channels


def weight_gradient(product: Product, gpu: Gpu) -> None:
    """`dw[m, c, t] = sum over n, o of dy[n, m, o] * x[n, g + c, o * stride + t * dilation - pad]`.

    `g` is the first channel of the group that `m` is of.
    """
    (x, dy), (down, right) = product.operands, two_axes(product.numbers)
    outputs, channels, *taps = sizes_of(product.result)
    batch, of_image, *_ = sizes_of(x)
    filters, size = outputs * channels // of_image, math.prod(taps)
    windows = _Windows(windows_at_once(filters, size, gpu), tuple(taps), channels)
    results = outputs * channels // windows.count
    strips = strips_of(strips_forward, down, 1, batch * results * right.out, gpu)
    cut = _cut(batch * strips.count * right.out, results, gpu)
    sizes = cut.parts, outputs * channels * size
    parts = T.sblock_alloc_buffer(sizes, "float32") if cut.parts > 1 else None
    with (
        T.thread_binding(results * cut.parts, "blockIdx.x") as group,
        T.thread_binding(cut.items, "threadIdx.x") as item,
        T.sblock("window"),
    ):
        # Groups side by side read the same part of the tensors.
        part, result = group // results, group % results
        sums = registers(windows.count * size)
        with T.serial(cut.turns) as turn:
            number = (part * cut.turns + turn) * cut.items + item

            def add() -> None:
                n, strip, at = unflatten(number, [batch, strips.count, right.out])
                m, c = windows.at(result, 0)
                image = x, [n, m // filters * channels + c]
                outs = [[n, m + window] for window in range(windows.count)]
                _add_strip(sums, image, (dy, outs), (strips, strip, at), (down, right))

            if cut.is_whole:
                add()
            else:
                with T.If(number < cut.total), T.Then():
                    add()

        def keep(number: ir.Expr, value: ir.Expr) -> None:
            (m, c), tap = windows.at(result, number // size), number % size
            if parts is None:
                product.store([m, c, *unflatten(tap, taps)], value)
            else:
                T.buffer_store(parts, value, [part, (m * channels + c) * size + tap])

        _emit_totals(sums, item, cut.items, gpu, keep)
    if parts is not None:
        _emit_sums(parts, product, gpu)


def windows_at_once(filters: int, taps: int, gpu: Gpu) -> int:
    """Windows of so many taps that a group may add up, of as many as read one channel."""
    fitting = [count for count in (MOST_WINDOWS, 2, 1) if filters % count == 0]
    return next((count for count in fitting if count * taps <= gpu.accumulators), 1)


def _cut(total: int, results: int, gpu: Gpu) -> _Cut:
    """Enough groups of so many results' sums to keep the GPU busy."""
    size = min(_ITEMS, gpu.group)
    while size > 1 and size // 2 >= total:
        size //= 2
    steps = -(-total // size)
    parts = max(min(gpu.groups * _MORE_GROUPS // results, _PARTS, steps // _LEAST_TURNS), 1)
    turns = -(-steps // parts)
    return _Cut(size, turns, -(-steps // turns), total)


def _add_strip(
    sums: tirx.Buffer,
    image: tuple[tirx.Buffer, list[ir.Expr]],
    adjoint: tuple[tirx.Buffer, list[list[ir.Expr]]],
    where: tuple[Strips, ir.Expr, ir.Expr],
    axes: Sequence[ConvolutionAxis],
) -> None:
    """Emits what a strip adds to all sums of some windows.

    Args:
        sums: window by window, row by row.
        image: the tensor, and the plane of it.
        adjoint: the results' gradient, and a plane of it for each window.
        where: the strips, the number of this one, and the column.
        axes: of the convolution.
    """
    (x, plane), (dy, planes), (strips, strip, at), (down, right) = image, adjoint, where, axes
    last = (strips.count - 1) * strips.rows
    lines = [
        Place(strip * strips.rows + row, row, last + row, down.out) for row in range(strips.rows)
    ]
    column = Place(at, 0, right.out - 1, right.out)
    slopes = [[element(dy, each, [line, column]) for line in lines] for each in planes]
    # Rows of no result are zero as those outside are, whatever the image has there.
    reach = (down.out - 1) * down.stride + (down.kernel - 1) * down.dilation - down.pad
    size = max(min(down.size, reach + 1), 1)
    for first, taps in strips.taps.items():
        row = strips.row_of_input(strip, first, size)
        for number, place in enumerate(columns_forward(right, at)):
            value = element(x, plane, [row, place])
            for window, of_window in enumerate(slopes):
                for each in taps:
                    tap = (window * down.kernel + each.tap) * right.kernel + number
                    add_to(sums, tap, of_window[each.row] * value)


def _emit_totals(
    sums: tirx.Buffer,
    item: ir.Expr,
    count: int,
    gpu: Gpu,
    keep: Callable[[ir.Expr, ir.Expr], None],
) -> None:
    """Emits the totals of what the items of a group have.

    A total is added up by some items first, and then by one. What is shared has room for some sums
    at a time.

    Args:
        sums: of an item.
        item: its number.
        count: of items.
        gpu: the machine.
        keep: takes the number of a sum, and its total.
    """
    taps, adding = int(sums.shape[0]), min(_ADDING, count)
    at_once = max(min(taps, gpu.local_bytes // 2 // (4 * (count + adding))), 1)
    own = T.sblock_alloc_buffer((at_once * count,), "float32", scope="shared")
    some = T.sblock_alloc_buffer((at_once * adding,), "float32", scope="shared")
    for first in range(0, taps, at_once):
        held = min(at_once, taps - first)
        for tap in range(held):
            T.buffer_store(own, sums[first + tap], [tap * count + item])
        for begin in range(0, held * adding, count):
            helper = begin + item
            with _of_first(item, held * adding - begin, count):
                at = helper // adding * count + helper % adding
                terms = [own[at + step * adding] for step in range(count // adding)]
                T.buffer_store(some, functools.reduce(operator.add, terms), [helper])
        for begin in range(0, held, count):
            tap = begin + item
            with _of_first(item, held - begin, count):
                terms = [some[tap * adding + step] for step in range(adding)]
                keep(first + tap, functools.reduce(operator.add, terms))


@contextmanager
def _of_first(item: ir.Expr, wanted: int, count: int) -> Iterator[None]:
    """What so many first items do, of a group of `count`."""
    if wanted >= count:
        yield
    else:
        with T.If(item < wanted), T.Then():
            yield


def _emit_sums(parts: tirx.Buffer, product: Product, gpu: Gpu) -> None:
    """Emits the kernel that adds up the parts of each sum."""
    count, size = sizes_of(parts)
    with items(size, gpu) as number:
        total = registers(1)
        turns, rest = divmod(count, _AT_ONCE)
        if turns:
            with T.serial(turns) as turn:
                add_to(total, 0, _sum_of(parts, turn * _AT_ONCE, _AT_ONCE, number))
        if rest:
            add_to(total, 0, _sum_of(parts, index(turns * _AT_ONCE), rest, number))
        product.store(unflatten(number, sizes_of(product.result)), total[0])


def _sum_of(parts: tirx.Buffer, first: ir.Expr, count: int, number: ir.Expr) -> ir.Expr:
    """The sum of some parts, which are read before any is added."""
    return functools.reduce(
        operator.add, [T.bind(parts[first + step, number]) for step in range(count)]
    )
