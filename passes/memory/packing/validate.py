"""Validates a plan without any code of the solver: every pair of buffers is compared."""

from collections.abc import Iterator

import numpy as np

from odtc.passes.memory.packing.problem import PackingProblem, PackingSolution

# Buffers that are compared with all others at once.
_ROWS = 256


class InvalidPlanError(RuntimeError):
    """A plan in which buffers overlap, or that breaks another promise: a fault of odtc."""


def validate(problem: PackingProblem, solution: PackingSolution) -> None:
    """Checks a plan.

    Raises:
        InvalidPlanError: it says which buffers, and what is wrong with them.
    """
    fault = next(_faults(problem, solution), None)
    if fault:
        raise InvalidPlanError(fault)


def _faults(problem: PackingProblem, solution: PackingSolution) -> Iterator[str]:
    hosts = {buffer.id: (buffer.host, buffer.at) for buffer in problem.buffers}
    if solution.offsets.keys() != hosts.keys():
        yield f"not both planned and asked for: {sorted(solution.offsets.keys() ^ hosts.keys())}"
        return
    if solution.lower_bound > solution.height:
        yield f"the height {solution.height} is below its bound {solution.lower_bound}"
    for buffer in problem.buffers:
        offset = solution.offsets[buffer.id]
        if offset % buffer.alignment:
            yield f"{buffer.id} lies at {offset}, not at a multiple of {buffer.alignment}"
        if offset < 0 or offset + buffer.size > solution.height:
            yield f"{buffer.id} lies at {offset}, not within the height {solution.height}"
        if buffer.host is not None and offset - solution.offsets[buffer.host] != buffer.at:
            yield f"{buffer.id} lies at {offset}, not at {buffer.at} within {buffer.host}"
    yield from _overlaps(problem, solution, hosts)


def _overlaps(
    problem: PackingProblem, solution: PackingSolution, hosts: dict[str, tuple[str | None, int]]
) -> Iterator[str]:
    """Pairs that share a byte at some time, but for those of which one is within the other."""
    names = [buffer.id for buffer in problem.buffers]
    lower, upper, size = (
        np.array([(b.lower, b.upper, b.size) for b in problem.buffers], np.int64).reshape(-1, 3).T
    )
    start = np.array([solution.offsets[name] for name in names], np.int64)
    end = start + size
    for first in range(0, len(names), _ROWS):
        some, rest = slice(first, first + _ROWS), slice(first, None)
        clash = (start[some, None] < end[rest]) & (start[rest] < end[some, None])
        clash &= (lower[some, None] < upper[rest]) & (lower[rest] < upper[some, None])
        clash &= (size[some, None] > 0) & (size[rest] > 0)
        for row, column in np.argwhere(np.triu(clash, 1)).tolist():
            one, other = names[first + row], names[first + column]
            if _outermost(one, hosts) != _outermost(other, hosts):
                yield f"{one} and {other} overlap"


def _outermost(name: str, hosts: dict[str, tuple[str | None, int]]) -> str:
    while (host := hosts[name][0]) is not None:
        name = host
    return name
