"""Profile of a step on the device, by the device's own timers."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.gpu.steps import TimedCall
from benchmarks.kernel_time.calls import KernelCall


def calls_of(timed: Sequence[TimedCall], said: Sequence[Mapping[str, Any]]) -> list[KernelCall]:
    """The calls of one step's kernels, each with its time on the device.

    Args:
        timed: the calls.
        said: of each, what `step.json` says.
    """
    return [
        KernelCall(each["name"], tuple(map(tuple, each["shapes"])), each["bytes"], end - begin)
        for (_, begin, end), each in zip(timed, said, strict=True)
    ]


def shares_of(timed: Sequence[TimedCall], begin: float, end: float) -> dict[str, Any]:
    """Where the time of a step goes that took from one time to another, in nanoseconds.

    `gaps` are when no kernel runs between the first and the last one; `moves` is what is before
    and after these: what a step is given, and its loss.
    """
    by_name: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    spans = [(round(b * 1e9), round(e * 1e9)) for _, b, e in timed]
    for (name, *_), (first, last) in zip(timed, spans, strict=True):
        by_name[name][0] += 1
        by_name[name][1] += last - first
    inner = max(last for _, last in spans) - min(first for first, _ in spans)
    span, kernels = max(round((end - begin) * 1e9), inner), covered(spans)
    found = {"span": span, "kernels": kernels, "moves": span - inner, "gaps": inner - kernels}
    return found | {"commands": len(timed), "by_name": by_name}


def covered(spans: Sequence[tuple[int, int]]) -> int:
    """How long at least one of some spans lasts."""
    total, until = 0, 0
    for start, end in sorted(spans):
        total += max(end - max(start, until), 0)
        until = max(until, end)
    return total
