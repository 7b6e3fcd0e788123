"""Detects throttling: cores that run slower than at the start."""

from collections.abc import Mapping

from odtc.runtime_rpc.metrics.samples import Samples
from odtc.runtime_rpc.metrics.usage import core_utilization

# A core with a lower load may be slow because it has little to do.
_BUSY_PERCENT = 50.0
# Governors change by steps, and some files report slightly less than a step.
_SLOWER = 0.97
# Parts of a run, at its start and at its end, that are compared.
_PART = 1 / 3


def busy_frequencies(samples: Samples) -> dict[str, float]:
    """The highest frequency in hertz of each core that was busy, where it is known."""
    return {
        core: max(samples.series[name].values)
        for core in samples.cores
        if (name := f"{core}.frequency") in samples.series
        and (core_utilization(samples, core) or 0.0) >= _BUSY_PERCENT
    }


def throttling(start: Mapping[str, float], now: Mapping[str, float]) -> str:
    """Describes the cores that are slower than at the start; '' where none is."""
    slower = [
        f"{core} {now[core] / 1e9:.2f} of {start[core] / 1e9:.2f} GHz"
        for core in now
        if core in start and now[core] < _SLOWER * start[core]
    ]
    return f"throttled: {', '.join(slower)}" if slower else ""


def throttling_within(samples: Samples) -> str:
    """Describes the cores that are slower at a run's end than at its start; '' where none is."""
    part = samples.seconds * _PART
    start = samples.within(samples.began, samples.began + part)
    end = samples.within(samples.ended - part, samples.ended)
    return throttling(busy_frequencies(start), busy_frequencies(end))
