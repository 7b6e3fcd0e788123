"""Schedules of GPU kernels by rule, without tuning.

Elementwise blocks have a work-item for each element. A reduction with many results has one for
each of these; one with few has a work-group, whose items share the terms and combine what they
have, if TVM can take its terms in parts. With very few results and many terms, each result has
several groups, and a second kernel combines these.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import tvm
from tvm import s_tir, tirx
from tvm.s_tir.schedule import LoopRV, SBlockRV

from odtc.autoschedule.cpu import inline_chains, is_scheduled
from odtc.autoschedule.loops import REDUCE, SPATIAL, extent, iteration_kinds, loops_of_kind
from odtc.autoschedule.reductions import can_be_split
from odtc.backends.gpu.machine import Gpu
from odtc.passes.contract import Pass

# From so many results of a reduction each has an item; so many terms are worth a group.
_MANY_RESULTS, _MANY_TERMS = 1 << 14, 64
# Terms of each item of a group, at least, where a result has several groups.
_LEAST_TURNS = 8


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
        if terms is not None and _is_worth_a_group(schedule, block, results, terms):
            _share_terms(schedule, block, results, terms, gpu)
        else:
            _bind_elements(schedule, results, gpu)
    return schedule.mod["main"]


def _is_worth_a_group(
    schedule: s_tir.Schedule, block: SBlockRV, results: LoopRV, terms: LoopRV
) -> bool:
    few = extent(schedule, results) < _MANY_RESULTS and extent(schedule, terms) >= _MANY_TERMS
    return few and can_be_split(schedule.get(block))


def _bind_elements(schedule: s_tir.Schedule, results: LoopRV, gpu: Gpu) -> None:
    """A work-item for each result."""
    items = min(gpu.group, extent(schedule, results))
    group, item = schedule.split(results, [None, items])
    schedule.bind(group, "blockIdx.x")
    schedule.bind(item, "threadIdx.x")


def _share_terms(
    schedule: s_tir.Schedule, block: SBlockRV, results: LoopRV, terms: LoopRV, gpu: Gpu
) -> None:
    """A work-group for each result, or for each of a result's parts."""
    parts = _parts(extent(schedule, results), extent(schedule, terms), gpu)
    if parts > 1:
        part, _ = schedule.split(terms, [parts, None])
        partial = schedule.rfactor(part, 0)
        _bind_elements(schedule, schedule.get_loops(block)[0], gpu)
        part, results, terms = schedule.get_loops(partial)
        results = schedule.fuse(part, results)
    items = gpu.group
    while items > 2 * extent(schedule, terms):
        items //= 2
    _, item = schedule.split(terms, [None, items])
    schedule.bind(results, "blockIdx.x")
    schedule.bind(item, "threadIdx.x")


def _parts(results: int, terms: int, gpu: Gpu) -> int:
    """Number of equal parts that each sum is cut into."""
    most = min(gpu.groups // results, terms // (gpu.group * _LEAST_TURNS))
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
