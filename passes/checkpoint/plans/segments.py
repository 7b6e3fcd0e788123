"""Plans that keep the tensors that cross from one segment of the forward pass to the next.

What lies inside of a segment is computed again when the backward pass comes to it (Chen et al.,
"Training Deep Nets with Sublinear Memory Cost", 2016). Segments have about equal bytes; each begins
where few bytes cross. With as many as the root of the number of tasks, a chain takes one more
forward pass.
"""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

from odtc.passes.checkpoint.plans.keeping import keeping
from odtc.passes.checkpoint.problem import Recomputation


def segmented(problem: Recomputation) -> Iterator[list[int]]:
    """Sequences of tasks, by rising numbers of segments."""
    crossing = crossing_of(problem)
    seen = set()
    count = 2.0
    while count <= problem.turn:
        borders = borders_of(problem, crossing, round(count))
        if borders not in seen:
            seen.add(borders)
            yield keeping(problem, set().union(*(crossing[each] for each in borders)))
        count *= 2**0.5


def crossing_of(problem: Recomputation) -> list[set[int]]:
    """For each task of the forward pass, the tensors that it or later ones of these read."""
    alive, found = set[int](), []
    for task in reversed(problem.tasks.tasks[: problem.turn]):
        alive = (alive - set(task.allocates)) | task.reads
        found.append(alive)
    return found[::-1]


def borders_of(problem: Recomputation, crossing: list[set[int]], count: int) -> tuple[int, ...]:
    """First tasks of the segments but the first one."""
    sizes = problem.tasks.sizes
    total = list(accumulate(problem.grown[: problem.turn]))
    width = total[-1] / count
    found = []
    for number in range(1, count):
        first, last = (
            min(max(bisect_left(total, width * (number + side)), 1), problem.turn - 1)
            for side in (-0.25, 0.25)
        )
        near = range(first, last + 1)
        found += [min(near, key=lambda at: sum(sizes[each] for each in crossing[at]))]
    return tuple(sorted(set(found)))
