"""Schedules of GPU kernels by rule, without tuning.

Elementwise blocks have a work-item for each element, and so has a reduction each result, unless it
has terms enough to be shared, and TVM can take them in parts. Items side by side read what lies
side by side:

    terms side by side, many results   a team of items for each result, several teams in a group
    terms side by side, few results    a group for each result, or for each of a result's parts
    results side by side               a group for some of them, whose rows of items share the terms

Items combine what they have. Where a result has several groups, a second kernel combines these.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import tvm
from tvm import s_tir, tirx
from tvm.s_tir.schedule import LoopRV, SBlockRV

from odtc.autoschedule.cpu import inline_chains, is_scheduled
from odtc.autoschedule.loops import REDUCE, SPATIAL, extent, iteration_kinds, loops_of_kind
from odtc.autoschedule.reductions import are_results_side_by_side, can_be_split, side_by_side
from odtc.backends.gpu.machine import Gpu
from odtc.passes.contract import Pass

# From so many results of a reduction a group is too much for each; so many terms are worth a team.
_MANY_RESULTS, _MANY_TERMS = 1 << 14, 64
# Items that share the terms of a result where there are many, or have results side by side.
_TEAM = 32
# Results side by side that are worth it, at least.
_LEAST_COLUMNS = 8
# Terms of each item of a group, at least, where a result has several groups.
_LEAST_TURNS = 8
# Groups of results side by side, for each one that keeps the GPU busy: an item waits for its terms.
_MORE_GROUPS = 4
# Parts that an item of the second kernel adds up without waiting for each.
_FEW_PARTS = 8
# Terms that an item reads one after the other without waiting: of results side by side there are
# fewer items, and a term is found at once.
_AT_ONCE, _COLUMNS_AT_ONCE = 4, 8


def schedule_kernel(function: tirx.PrimFunc, gpu: Gpu) -> tirx.PrimFunc:
    """The kernel under the rules; a block that no rule fits is left to `bind-loops`."""
    schedule = s_tir.Schedule(function)
    inline_chains(schedule)
    for block in schedule.get_child_blocks(schedule.get_sblock("root")):
        kinds = iteration_kinds(schedule, block)
        if len(kinds) != len(schedule.get_loops(block)) or not set(kinds) <= {SPATIAL, REDUCE}:
            continue
        spatial = loops_of_kind(schedule, block, SPATIAL)
        reduce = loops_of_kind(schedule, block, REDUCE)
        if spatial and reduce:
            schedule.reorder(*spatial, *reduce)
        if not spatial:
            spatial = [schedule.add_unit_loop(reduce[0] if reduce else block)]
        results = schedule.fuse(*spatial)
        terms = schedule.fuse(*reduce) if reduce else None
        share = _way_to_share(schedule, block, results, terms) if terms is not None else None
        if terms is not None and share is not None:
            share(schedule, block, (results, terms), gpu)
        else:
            _bind_elements(schedule, results, gpu.group)
    return schedule.mod["main"]


Share = Callable[[s_tir.Schedule, SBlockRV, tuple[LoopRV, LoopRV], Gpu], None]


def _way_to_share(
    schedule: s_tir.Schedule, block: SBlockRV, results: LoopRV, terms: LoopRV
) -> Share | None:
    """How items share the terms of a reduction; None where each has results of its own."""
    sblock = schedule.get(block)
    if extent(schedule, terms) < _MANY_TERMS or not can_be_split(sblock):
        return None
    count = extent(schedule, results)
    is_few = count < _MANY_RESULTS
    if side_by_side(sblock):
        return _share_by_groups if is_few else _share_by_teams
    if is_few and _dividing(count, _TEAM) >= _LEAST_COLUMNS and are_results_side_by_side(sblock):
        return _share_by_columns
    return _share_by_groups if is_few else None


def _dividing(size: int, most: int) -> int:
    """The largest power of two that divides a size, up to another power of two."""
    return math.gcd(size, most)


def _bind_elements(schedule: s_tir.Schedule, results: LoopRV, most: int) -> None:
    """A work-item for each result, in groups of so many at most."""
    items = min(most, extent(schedule, results))
    group, item = schedule.split(results, [None, items])
    schedule.bind(group, "blockIdx.x")
    schedule.bind(item, "threadIdx.x")


def _share_by_groups(
    schedule: s_tir.Schedule, block: SBlockRV, loops: tuple[LoopRV, LoopRV], gpu: Gpu
) -> None:
    """A work-group for each result, or for each of a result's parts."""
    results, terms = loops
    parts = _parts(extent(schedule, results), extent(schedule, terms), gpu.group, gpu.groups)
    part, results, terms = _in_parts(schedule, block, loops, parts, gpu.group)
    if part is not None:
        results = schedule.fuse(part, results)
    items = gpu.group
    while items > 2 * extent(schedule, terms):
        items //= 2
    item = _turns(schedule, terms, items, _AT_ONCE)
    schedule.bind(results, "blockIdx.x")
    schedule.bind(item, "threadIdx.x")


def _share_by_teams(
    schedule: s_tir.Schedule, _: SBlockRV, loops: tuple[LoopRV, LoopRV], gpu: Gpu
) -> None:
    """A team of items for each result."""
    results, terms = loops
    teams = _dividing(extent(schedule, results), gpu.group // _TEAM)
    group, team = schedule.split(results, [None, teams])
    item = _turns(schedule, terms, _TEAM, _AT_ONCE)
    schedule.bind(group, "blockIdx.x")
    schedule.bind(team, "threadIdx.y")
    schedule.bind(item, "threadIdx.x")


def _share_by_columns(
    schedule: s_tir.Schedule, block: SBlockRV, loops: tuple[LoopRV, LoopRV], gpu: Gpu
) -> None:
    """A group for results side by side, or for each part of these: its rows share the terms."""
    count, depth = (extent(schedule, loop) for loop in loops)
    columns = _dividing(count, _TEAM)
    rows = gpu.group // columns
    groups = min(gpu.groups * _MORE_GROUPS, count // columns * _FEW_PARTS)
    parts = _parts(count // columns, depth, rows, groups)
    part, results, terms = _in_parts(schedule, block, loops, parts, columns)
    group, column = schedule.split(results, [None, columns])
    row = _turns(schedule, terms, rows, _COLUMNS_AT_ONCE)
    if part is not None:
        group = schedule.fuse(part, group)
    schedule.bind(group, "blockIdx.x")
    schedule.bind(row, "threadIdx.y")
    schedule.bind(column, "threadIdx.x")


def _turns(schedule: s_tir.Schedule, terms: LoopRV, items: int, at_once: int) -> LoopRV:
    """Items that take terms in turns, some of which are written out where that needs no tests.

    Returns:
        The loop over the items.
    """
    turns, rest = divmod(extent(schedule, terms), items)
    together = 1 if rest else math.gcd(turns, at_once)
    _, written_out, item = schedule.split(terms, [None, together, items])
    schedule.unroll(written_out)
    return item


def _in_parts(
    schedule: s_tir.Schedule,
    block: SBlockRV,
    loops: tuple[LoopRV, LoopRV],
    parts: int,
    items: int,
) -> tuple[LoopRV | None, LoopRV, LoopRV]:
    """Loops over parts, results and terms of a part; a kernel of its own adds up several parts.

    Args:
        schedule: of the kernel.
        block: the reduction.
        loops: over its results and terms.
        parts: of each result.
        items: of a group of that kernel, at most.
    """
    if parts == 1:
        return None, *loops
    part, _ = schedule.split(loops[1], [parts, None])
    partial = schedule.rfactor(part, 0)
    *_, added = schedule.get_loops(block)
    if parts <= _FEW_PARTS:
        schedule.unroll(added)
    _bind_elements(schedule, schedule.get_loops(block)[0], items)
    results, part, terms = schedule.get_loops(partial)
    schedule.reorder(part, results)
    return part, results, terms


def _parts(results: int, terms: int, items: int, groups: int) -> int:
    """Number of equal parts that each sum is cut into, for so many groups in all.

    Args:
        results: that have groups of their own.
        terms: of each.
        items: that share them.
        groups: to have.
    """
    most = min(groups // results, terms // (items * _LEAST_TURNS))
    return max((count for count in range(1, most + 1) if terms % count == 0), default=1)


@dataclass(frozen=True)
class ScheduleGpu(Pass):
    """Schedules every kernel that has no schedule of its own.

    Attributes:
        gpu: the machine.
    """

    name: ClassVar[str] = "schedule-gpu"
    gpu: Gpu = field(repr=False)

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Schedules all PrimFuncs of the module."""
        scheduled = module.clone()
        for variable, function in module.functions_items():
            if isinstance(function, tirx.PrimFunc) and not is_scheduled(function):
                scheduled.update_func(variable, schedule_kernel(function, self.gpu))
        return scheduled
