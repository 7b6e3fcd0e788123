"""Schedules of reductions: which elements form a vector.

Where the reduced elements lie side by side in memory, as those of a row or of a plane, each lane
takes every so manieth of them, in several vectors at a time, and the lanes are combined at the end
by halves. Otherwise neighbours in the result are the lanes.
"""

import math
from collections.abc import Sequence

from tvm import ir, s_tir, tirx
from tvm.s_tir.schedule import LoopRV, SBlockRV

from odtc.autoschedule.loops import (
    PARALLEL_ITERATIONS,
    REDUCE,
    SPATIAL,
    extent,
    iterations,
    loops_of_kind,
)

# Vectors that a sum is kept in, at most: half as many hide how long an addition takes.
VECTORS = 8
# Vectors of neighbours in the result, at most: more would leave too little for other threads.
COLUMNS = 4
_OPERATIONS = (tirx.Add, tirx.Max, tirx.Min, tirx.Mul)
# The shortest vector that is worth it.
SHORTEST = 4


def schedule_reduction(schedule: s_tir.Schedule, block: SBlockRV, lanes: int) -> None:
    """Vectors of `lanes` elements, on several threads if there is enough to do."""
    sblock = schedule.get(block)
    if len(schedule.get_loops(block)) != len(sblock.iter_vars) or len(sblock.writes) > 1:
        return
    reduce = loops_of_kind(schedule, block, REDUCE)
    inner = side_by_side(sblock) if can_be_split(sblock) else 0
    size = 1
    for loop in reduce[len(reduce) - inner :]:
        size *= extent(schedule, loop)
    width, vectors = vector_shape(size, lanes)
    if inner and width >= SHORTEST:
        _along_rows(schedule, block, inner, width, vectors)
    elif loops_of_kind(schedule, block, SPATIAL):
        _across_columns(schedule, block, lanes)


def can_be_split(block: s_tir.SBlock) -> bool:
    """Whether the reduction is one that TVM can take in parts.

    Not one of booleans: TVM takes a vector that it has just stored, of bits, for one of bytes. Nor
    an extremum that starts from an infinity: TVM knows those that start from a finite number, and
    to register others from Python breaks the end of the process.
    """
    body, init = block.body, block.init
    if not isinstance(body, tirx.BufferStore) or not isinstance(init, tirx.BufferStore):
        return False
    first = init.value
    if not isinstance(first, tirx.IntImm | tirx.FloatImm) or not math.isfinite(first.value):
        return False
    return isinstance(body.value, _OPERATIONS) and str(block.writes[0].source.dtype) != "bool"


def vector_shape(size: int, lanes: int, most: int = VECTORS) -> tuple[int, int]:
    """Elements of a vector and number of vectors that divide a size.

    A vector of a power of two is what the machine has; an odd one is better than a short one.
    """
    divisors = [n for n in range(1, lanes + 1) if size % n == 0]
    powers = [n for n in divisors if n & (n - 1) == 0]
    width = max(divisors if 2 * max(powers) < max(divisors) else powers)
    return width, max(n for n in range(1, most + 1) if size // width % n == 0)


def side_by_side(block: s_tir.SBlock) -> int:
    """Number of the last reduced variables that run over contiguous memory in every read.

    Each tensor must be read by all of them, as its last indices, or by none.
    """
    variables = [v for v in block.iter_vars if int(v.iter_type) == REDUCE]
    regions = [read for read in block.reads if not _is_written(block, read)]
    count = 0
    for number in range(1, len(variables) + 1):
        inner = variables[-number:]
        follow = [_follows(read, inner) for read in regions]
        if not any(follow) or not all(
            yes or not _uses(read.region, inner) for yes, read in zip(follow, regions, strict=True)
        ):
            break
        count = number
    return count


def are_results_side_by_side(block: s_tir.SBlock) -> bool:
    """Whether neighbours in the result read neighbours in memory, of all that they tell apart."""
    last = [v for v in block.iter_vars if int(v.iter_type) == SPATIAL][-1:]
    regions = [
        read for read in block.reads if not _is_written(block, read) and _uses(read.region, last)
    ]
    return bool(regions) and all(_follows(read, last) for read in regions)


def _is_written(block: s_tir.SBlock, read: ir.TensorRegion) -> bool:
    return any(read.source.same_as(write.source) for write in block.writes)


def _uses(indices: Sequence[ir.Range], variables: Sequence[tirx.IterVar]) -> bool:
    used = [name for each in indices for name in tirx.analysis.undefined_vars(each.min)]
    return any(name.same_as(variable.var) for name in used for variable in variables)


def _follows(read: ir.TensorRegion, variables: Sequence[tirx.IterVar]) -> bool:
    """Whether the variables are the last indices, all but the first over whole dimensions."""
    first = len(read.region) - len(variables)
    if first < 0 or _uses(read.region[:first], variables):
        return False
    exact = all(
        int(index.extent) == 1 and index.min.same_as(variable.var)
        for index, variable in zip(read.region[first:], variables, strict=True)
    )
    sizes = zip(variables[1:], read.source.shape[first + 1 :], strict=True)
    return exact and all(int(variable.dom.extent) == int(size) for variable, size in sizes)


def _along_rows(
    schedule: s_tir.Schedule, block: SBlockRV, inner: int, width: int, vectors: int
) -> None:
    """Vectors along the reduced elements, then the lanes by halves."""
    parallel = iterations(schedule, block) >= PARALLEL_ITERATIONS
    spatial = loops_of_kind(schedule, block, SPATIAL)
    reduce = loops_of_kind(schedule, block, REDUCE)
    inside = schedule.fuse(*reduce[-inner:])
    steps, lane = schedule.split(inside, [None, vectors * width])
    schedule.reorder(*spatial, *reduce[:-inner], steps, lane)
    for other in schedule.get_child_blocks(schedule.get_sblock("root")):
        # TVM's rfactor mistakes any block without a loop for the one that it replaces.
        if not schedule.get_loops(other):
            schedule.add_unit_loop(other)
    parts = [schedule.rfactor(lane, len(spatial))]
    *rows, lane = schedule.get_loops(block)
    while (size := extent(schedule, lane)) > width or (size % 2 == 0 and size > 2):
        _, rest = schedule.split(lane, [None, width if size > width else size // 2])
        parts.append(schedule.rfactor(rest, len(spatial)))
        *rows, lane = schedule.get_loops(block)
    schedule.unroll(lane)
    if rows:
        row = schedule.fuse(*rows)
        if parallel:
            schedule.parallel(row)
        for part in reversed(parts):
            schedule.compute_at(part, row)
    for part in parts:
        _vectorise_part(schedule, part, len(rows) > 0, width)


def _vectorise_part(schedule: s_tir.Schedule, part: SBlockRV, in_row: bool, width: int) -> None:
    """Sums side by side, in vectors; their first values are set before the loops of the others."""
    loops = schedule.get_loops(part)
    lane, reduce = (loops[1], loops[2:]) if in_row else (loops[-1], loops[:-1])
    vector, elements = schedule.split(lane, [None, min(width, extent(schedule, lane))])
    schedule.reorder(*reduce, vector, elements)
    _in_vectors(schedule, part, reduce, (vector, elements))


def _in_vectors(
    schedule: s_tir.Schedule,
    block: SBlockRV,
    reduce: Sequence[LoopRV],
    inner: tuple[LoopRV, LoopRV],
) -> None:
    """Vectors written out, with the first values of the sums set before the reduced loops."""
    schedule.unroll(inner[0])
    schedule.vectorize(inner[1])
    if reduce:
        *_, vector, lane = schedule.get_loops(schedule.decompose_reduction(block, reduce[0]))
        schedule.unroll(vector)
        schedule.vectorize(lane)


def _across_columns(schedule: s_tir.Schedule, block: SBlockRV, lanes: int) -> None:
    """Elements of the result side by side, each summed in a register.

    The innermost spatial loop becomes the vector, inside the reduction, so that the operands that
    follow it are read in vectors and the others once for all lanes.
    """
    parallel = iterations(schedule, block) >= PARALLEL_ITERATIONS
    spatial = loops_of_kind(schedule, block, SPATIAL)
    reduce = loops_of_kind(schedule, block, REDUCE)
    width, vectors = vector_shape(extent(schedule, spatial[-1]), lanes, COLUMNS)
    outer, vector, lane = schedule.split(spatial[-1], [None, vectors, width])
    schedule.reorder(*spatial[:-1], outer, *reduce, vector, lane)
    fused = schedule.fuse(*spatial[:-1], outer)
    if parallel:
        schedule.parallel(fused)
    _in_vectors(schedule, block, reduce, (vector, lane))
