"""The total of a gradient on a GPU: its squares, and how many elements are not finite.

The kernel as it is written for CPUs has 64 chunks, whose sums one item adds up. Here groups of
items have parts of the gradient, and a group adds up theirs.

    elements ─an item, some at once→ sums of items ─halves→ of a group ─one group→ the total
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import tvm
from tvm import ir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.gpu.machine import Gpu
from odtc.backends.gpu.rows.teams import combined, launch
from odtc.backends.gpu.tiling import parts_of
from odtc.core.ir.flat_positions import indices_of
from odtc.core.ir.kernel_marks import IS_SCHEDULED, OPAQUE, PATTERN, TOTAL_OF
from odtc.passes.contract import Pass

# Elements that an item reads without waiting for each, and has at least where there are groups.
_AT_ONCE, _LEAST = 4, 16
# Groups for each one that keeps the GPU busy.
_MORE_GROUPS = 4
_LARGEST = 3.4028234663852886e38


@dataclass(frozen=True)
class WriteTotals(Pass):
    """Writes the kernels that are marked as totals of gradients for a GPU.

    Attributes:
        gpu: the machine.
    """

    name: ClassVar[str] = "write-totals"
    gpu: Gpu = field(repr=False)

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites these kernels of a module."""
        written = module.clone()
        for variable, function in module.functions_items():
            if isinstance(function, tirx.PrimFunc) and TOTAL_OF in (function.attrs or {}):
                written.update_func(variable, total_on_gpu(function, self.gpu))
        return written


def total_on_gpu(function: tirx.PrimFunc, gpu: Gpu) -> tirx.PrimFunc:
    """The kernel of `(g, total before, step, [loss scale]) -> total` in place of a CPU's."""
    every, items = int(function.attrs[TOTAL_OF]), gpu.group
    shapes = [([int(size) for size in each.shape], str(each.dtype)) for each in function.params]
    size = math.prod(shapes[0][0])
    groups = max(min(size // (items * _LEAST), gpu.groups * _MORE_GROUPS), 1)
    with IRBuilder() as builder:
        with T.prim_func(is_private=True, s_tir=True):
            T.func_name("total")
            T.func_attr({IS_SCHEDULED: True, PATTERN: OPAQUE, "tirx.noalias": True})
            g, before, step, *scale, after = [
                T.arg(f"arg{number}", T.buffer(*each)) for number, each in enumerate(shapes)
            ]

            def store(values: Sequence[ir.Expr], item: ir.Expr) -> None:
                is_last = tirx.EQ(step[()] % every, every - 1)
                with T.If(tirx.EQ(item, 0)), T.Then():
                    for place, value in enumerate(values):
                        more = tirx.Select(is_last, value, tirx.const(0.0, "float32"))
                        T.buffer_store(after, before[place] + more, [place])

            if groups == 1:
                with launch(1, items) as (_, item):
                    store(_sums(g, scale, (item, items), items), item)
            else:
                parts = T.sblock_alloc_buffer((2, groups), "float32")
                with launch(groups, items) as (group, item):
                    number = group * items + item
                    sums = _sums(g, scale, (number, groups * items), items)
                    with T.If(tirx.EQ(item, 0)), T.Then():
                        for place, value in enumerate(sums):
                            T.buffer_store(parts, value, [place, group])
                with launch(1, items) as (_, item):
                    store(_sums_of_parts(parts, item, items), item)
        return builder.get()


def _sums(
    g: tirx.Buffer, scale: Sequence[tirx.Buffer], place: tuple[ir.Expr, int], items: int
) -> list[ir.Expr]:
    """Emits both sums over what a group has of a gradient.

    Args:
        g: the gradient.
        scale: the loss scale, if there is one.
        place: number of the item among all, and how many these are.
        items: of a group.
    """
    shape = [int(each) for each in g.shape]
    (number, count), size = place, math.prod(shape)
    # The square of a scaled gradient may leave float32 where the gradient does not.
    unscale = T.bind(tirx.const(1.0, "float32") / scale[0][()]) if scale else None
    squares, strange = _zeros(1), _zeros(1)
    held = _zeros(_AT_ONCE)
    zero, one = tirx.const(0.0, "float32"), tirx.const(1.0, "float32")
    with T.serial(parts_of(parts_of(size, count), _AT_ONCE)) as turn:

        def flat(slot: ir.Expr, turn: ir.Expr = turn) -> ir.Expr:
            return (turn * _AT_ONCE + slot) * count + number

        with T.unroll(_AT_ONCE) as slot:
            at = tirx.min(flat(slot), size - 1)
            T.buffer_store(held, tirx.BufferLoad(g, indices_of(at, shape)), [slot])
        with T.unroll(_AT_ONCE) as slot:
            value, is_there = held[slot], flat(slot) < size
            # Not `abs`: the comparison must be false for a NaN.
            finite = tirx.And(value <= _LARGEST, value >= -_LARGEST)
            known = tirx.Select(tirx.Or(finite, tirx.Not(is_there)), zero, one)
            scaled = value if unscale is None else value * unscale
            square = tirx.Select(is_there, scaled * scaled, zero)
            T.buffer_store(squares, squares[0] + square, [0])
            T.buffer_store(strange, strange[0] + known, [0])
    item = number % items
    return combined([squares[0], strange[0]], item, items, items)


def _sums_of_parts(parts: tirx.Buffer, item: ir.Expr, items: int) -> list[ir.Expr]:
    """Emits both sums over what groups have."""
    count, sums = int(parts.shape[1]), [_zeros(1), _zeros(1)]
    with T.serial(parts_of(count, items)) as turn:
        at = turn * items + item
        for place, total in enumerate(sums):
            value = tirx.BufferLoad(parts, [place, tirx.min(at, count - 1)])
            more = tirx.Select(at < count, value, tirx.const(0.0, "float32"))
            T.buffer_store(total, total[0] + more, [0])
    return combined([each[0] for each in sums], item, items, items)


def _zeros(count: int) -> tirx.Buffer:
    """Emits registers that hold zeros."""
    found = T.sblock_alloc_buffer((count,), "float32", scope="local")
    with T.unroll(count) as at:
        T.buffer_store(found, tirx.const(0.0, "float32"), [at])
    return found
