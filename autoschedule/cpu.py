"""Schedules of CPU kernels by rule, without tuning.

Every kernel is made parallel over its outer elements and vectorised over its inner ones; small
kernels stay on one thread, where starting the pool would cost more than the work. A kernel that
comes with a schedule of its own (`tirx.is_scheduled`) is left as it is.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import tvm
from tvm import s_tir, tirx
from tvm.s_tir.schedule import LoopRV, SBlockRV

from odtc.autoschedule.affine import (
    groups_of,
    is_contiguous,
    loads_and_variables,
    operations,
    period_of,
    steps_of,
)
from odtc.autoschedule.loops import (
    PARALLEL_ITERATIONS,
    REDUCE,
    extent,
    is_elementwise,
    iteration_kinds,
    iterations,
)
from odtc.autoschedule.reductions import schedule_reduction
from odtc.core.ir.kernel_marks import IS_SCHEDULED
from odtc.passes.contract import Pass

# Iterations that are enough for threads to share, and that an inner loop should not go below.
PIECES, LONG_LOOP = 64, 256
# Operations of a block, of which an ordinary fused chain has some dozens.
LONGEST_INLINED = 100


def is_scheduled(function: tirx.PrimFunc) -> bool:
    """Whether a kernel came with its schedule."""
    return bool(function.attrs) and IS_SCHEDULED in function.attrs


def stores_once(schedule: s_tir.Schedule, block: SBlockRV) -> bool:
    """Whether a block is one store of an expression."""
    return isinstance(schedule.get(block).body, tirx.BufferStore)


def is_alone(schedule: s_tir.Schedule) -> bool:
    """Whether the kernel has one block."""
    return len(schedule.get_child_blocks(schedule.get_sblock("root"))) == 1


def has_dimensions(schedule: s_tir.Schedule) -> bool:
    """Whether each tensor of the kernel has."""
    return all(len(each.shape) > 0 for each in schedule.mod["main"].params)


def length_inlined(schedule: s_tir.Schedule, block: SBlockRV, reader: SBlockRV) -> int:
    """Counts the operations of a reader once a block is inlined at each read of it."""
    inner, outer = (schedule.get(each).body.value for each in (block, reader))
    (written,) = schedule.get(block).writes
    reads = [load for load in loads_and_variables(outer)[0] if load.source == written.source]
    return operations(outer) + len(reads) * operations(inner)


def is_boolean_step(schedule: s_tir.Schedule, block: SBlockRV) -> bool:
    """Whether other blocks of the kernel read booleans from this one."""
    (written,) = schedule.get(block).writes
    return str(written.source.dtype) == "bool" and bool(schedule.get_consumers(block))


def schedule_elementwise(schedule: s_tir.Schedule, block: SBlockRV, lanes: int) -> None:
    """A loop along which every tensor is read as if it were flat, with parallel ones around it.

    Vectors run along it where what is read is contiguous; elsewhere LLVM finds some. A vector of
    booleans is not forwarded within a kernel: TVM would take the bits that it has just stored for
    the bytes that it would have loaded.
    """
    loops = list(schedule.get_loops(block))
    extents = [extent(schedule, loop) for loop in loops]
    steps = steps_of(schedule.get(block))
    vectors = is_contiguous(steps, extents) and not is_boolean_step(schedule, block)
    parallel = iterations(schedule, block) >= PARALLEL_ITERATIONS
    first = first_inner(extents, groups_of(steps, extents)[-1][0])
    inner = schedule.fuse(*loops[first:])
    around = loops[:first]
    if parallel and (not around or is_short_of_pieces(extents, first)):
        count = pieces_of(extent(schedule, inner), lanes)
        piece, inner = schedule.split(inner, [count, None])
        around.append(piece)
    if parallel:
        schedule.parallel(schedule.fuse(*around))
    if vectors:
        vectorize(schedule, inner, lanes)
    else:
        cut_at_period(schedule, block, inner)


def cut_at_period(schedule: s_tir.Schedule, block: SBlockRV, loop: LoopRV) -> None:
    """Splits a loop whose indices start anew into two, so that no index is a remainder.

    LLVM 22 takes `x[i % 8]` in a loop of 16 for sixteen neighbours where it makes vectors of 16
    (Zen 4 and 5): half of them are other elements. Without the remainder they are neighbours.
    """
    size = extent(schedule, loop)
    period = period_of(schedule.get(block), size) if size > 1 else size
    if 1 < period < size:
        schedule.split(loop, [None, period])


def vectorize(schedule: s_tir.Schedule, loop: LoopRV, lanes: int) -> None:
    """Splits a loop into one of full vectors, and one of the rest.

    A short loop of single elements would be unrolled, and the one around it vectorised, by gathers.
    TVM can cut no loop of a kernel of several blocks, or of one that reads a number without
    dimensions: such a loop is left to LLVM.
    """
    size = extent(schedule, loop)
    rest = size % lanes
    if size < lanes or (rest and not (is_alone(schedule) and has_dimensions(schedule))):
        return
    full = schedule.loop_partition(loop, [size - rest, None])[0] if rest else loop
    _, vector = schedule.split(full, [None, lanes])
    schedule.vectorize(vector)


def first_inner(extents: Sequence[int], first: int) -> int:
    """The first loop of those that become the inner one, if `first` is the first that may.

    Some are left outside for threads to share, as long as the inner loop stays long.
    """
    while (
        first < len(extents) - 1
        and math.prod(extents[:first]) < PIECES
        and math.prod(extents[first + 1 :]) >= LONG_LOOP
    ):
        first += 1
    return first


def is_short_of_pieces(extents: Sequence[int], first: int) -> bool:
    """Whether threads should share one loop, the inner one, because there is little around it."""
    return math.prod(extents[:first]) < PIECES and math.prod(extents[first:]) == max(
        extents[first:]
    )


def pieces_of(size: int, lanes: int) -> int:
    """Returns the number of equal pieces to cut a loop into, of whole vectors if it has any."""
    units = size // lanes if size % lanes == 0 else size
    return next(count for count in range(PIECES, 0, -1) if units % count == 0)


def is_read_once(schedule: s_tir.Schedule, block: SBlockRV, reader: SBlockRV) -> bool:
    """Whether a reduction reads each element of a block about once, as a sum of products does."""
    kinds = iteration_kinds(schedule, reader)
    return REDUCE in kinds and iterations(schedule, reader) <= iterations(schedule, block)


def inline_chains(schedule: s_tir.Schedule) -> None:
    """Computes elementwise blocks where they are read, so that a fused chain is one loop.

    A block that is read several times is computed as often: where that would double a chain again
    and again, it is cut.
    """
    for block in schedule.get_child_blocks(schedule.get_sblock("root")):
        readers = schedule.get_consumers(block)
        if not readers or not all(stores_once(schedule, each) for each in (block, *readers)):
            continue
        if not is_elementwise(iteration_kinds(schedule, block)):
            continue
        alone = len(readers) == 1 and is_read_once(schedule, block, readers[0])
        if not alone and not all(is_elementwise(iteration_kinds(schedule, r)) for r in readers):
            continue
        if all(length_inlined(schedule, block, each) <= LONGEST_INLINED for each in readers):
            schedule.compute_inline(block)


def schedule_kernel(function: tirx.PrimFunc, lanes: int) -> tirx.PrimFunc:
    """The kernel under the rules; a block that no rule fits stays serial."""
    schedule = s_tir.Schedule(function)
    inline_chains(schedule)
    for block in schedule.get_child_blocks(schedule.get_sblock("root")):
        kinds = iteration_kinds(schedule, block)
        # A block under a loop that it does not iterate over is written by hand; leave it.
        if len(kinds) != len(schedule.get_loops(block)):
            continue
        if is_elementwise(kinds) and stores_once(schedule, block):
            schedule_elementwise(schedule, block, lanes)
        elif REDUCE in kinds:
            schedule_reduction(schedule, block, lanes)
    return schedule.mod["main"]


@dataclass(frozen=True)
class ScheduleCpu(Pass):
    """Schedules every kernel that has no schedule of its own.

    Attributes:
        lanes: float32 elements in a vector register.
    """

    name: ClassVar[str] = "schedule-cpu"
    lanes: int

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Schedules all PrimFuncs of the module."""
        scheduled = module.clone()
        for variable, function in module.functions_items():
            if isinstance(function, tirx.PrimFunc) and not is_scheduled(function):
                scheduled.update_func(variable, schedule_kernel(function, self.lanes))
        return scheduled
