"""Properties of a block and its loops that the rules use."""

from tvm import s_tir
from tvm.s_tir.schedule import LoopRV, SBlockRV

# Below this many innermost iterations a kernel is not worth a second thread.
PARALLEL_ITERATIONS = 1 << 14

SPATIAL, REDUCE = 0, 2


def is_elementwise(kinds: list[int]) -> bool:
    """Whether a block only maps elements: no reduction, at least one loop."""
    return bool(kinds) and all(kind == SPATIAL for kind in kinds)


def iteration_kinds(schedule: s_tir.Schedule, block: SBlockRV) -> list[int]:
    """Kinds of the block's loops, outermost first."""
    return [int(variable.iter_type) for variable in schedule.get(block).iter_vars]


def loops_of_kind(schedule: s_tir.Schedule, block: SBlockRV, kind: int) -> list[LoopRV]:
    """The block's loops of a kind, outermost first; each variable has a loop of its own."""
    kinds = iteration_kinds(schedule, block)
    loops = schedule.get_loops(block)
    return [loop for loop, other in zip(loops, kinds, strict=True) if other == kind]


def extent(schedule: s_tir.Schedule, loop: LoopRV) -> int:
    """Number of iterations of a loop."""
    return int(schedule.get(loop).extent)


def iterations(schedule: s_tir.Schedule, block: SBlockRV) -> int:
    """Innermost iterations of a block."""
    count = 1
    for loop in schedule.get_loops(block):
        count *= extent(schedule, loop)
    return count
