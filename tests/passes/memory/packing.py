"""Helpers of the memory plan's tests: drawn problems, and plans found by trying all orders."""

import math
from itertools import permutations

from hypothesis import strategies as st

from odtc.passes.memory.packing.problem import Buffer, PackingProblem


@st.composite
def problems(draw: st.DrawFn, most: int, views: bool = True) -> PackingProblem:
    """Problems of a few buffers, some of them parts of earlier ones."""
    buffers: list[Buffer] = []
    for number in range(draw(st.integers(0, most))):
        lower = draw(st.integers(0, 7))
        upper = lower + draw(st.integers(1, 5))
        alignment = draw(st.sampled_from([1, 1, 1, 2, 3, 4, 8]))
        hosts = [buffer for buffer in buffers if buffer.size] if views else []
        host = draw(st.sampled_from([None, None, *hosts]))
        if host is None:
            size = draw(st.integers(0, 12))
            buffers.append(Buffer(str(number), lower, upper, size, alignment))
            continue
        at = alignment * draw(st.integers(0, host.size // alignment))
        size = draw(st.integers(0, host.size - at))
        # Aligned at its outermost host too.
        alignment = math.gcd(alignment, host.alignment) if host.host else alignment
        buffers.append(Buffer(str(number), lower, upper, size, alignment, host.id, at))
    return PackingProblem(buffers)


def lowest_height(problem: PackingProblem, common: int) -> int:
    """The least height of any plan of at most a few buffers that are not parts of others.

    A height is that of the highest end of a buffer, with sizes rounded up to `common`.

    In the order of a lowest plan's offsets, each buffer put on top of those it meets ends up no
    higher than there: so the best of all orders is a lowest plan.
    """
    solid = [buffer for buffer in problem.buffers if buffer.size]
    return min(_height(order, common) for order in permutations(solid))


def _height(order: tuple[Buffer, ...], common: int) -> int:
    tops: list[tuple[Buffer, int]] = []
    for buffer in order:
        below = [
            top for other, top in tops if other.lower < buffer.upper and buffer.lower < other.upper
        ]
        offset = math.ceil(max(below, default=0) / buffer.alignment) * buffer.alignment
        tops.append((buffer, offset + math.ceil(buffer.size / common) * common))
    return max((top for _, top in tops), default=0)


def merged(problem: PackingProblem) -> tuple[PackingProblem, int]:
    """The same problem with each outermost host in place of all its parts; what divides offsets."""
    root = {buffer.id: buffer.host or buffer.id for buffer in problem.buffers}
    while any(root[host] != host for host in root.values()):
        root = {name: root[host] for name, host in root.items()}
    hosts = []
    for host in problem.buffers:
        if host.host is None:
            family = [b for b in problem.buffers if root[b.id] == host.id]
            hosts.append(
                Buffer(
                    host.id,
                    min(b.lower for b in family),
                    max(b.upper for b in family),
                    host.size,
                    math.lcm(*(b.alignment for b in family)),
                )
            )
    return PackingProblem(hosts), math.gcd(*(host.alignment for host in hosts if host.size))
