"""The passes that schedule the kernels of each target."""

from odtc.autoschedule.cpu import ScheduleCpu
from odtc.autoschedule.gpu import ScheduleGpu
from odtc.backends.targets import CPU, Target, gpu_of
from odtc.passes.contract import Pass
from odtc.passes.pipeline.table import by_name

SCHEDULE_PASSES = by_name(ScheduleCpu, ScheduleGpu)


def schedule_passes(target: Target) -> tuple[Pass, ...]:
    """The passes that schedule the kernels of a target."""
    if target.kind == CPU:
        return (ScheduleCpu(lanes=target.vector_bits // 32),)
    return (ScheduleGpu(gpu_of(target)),)
