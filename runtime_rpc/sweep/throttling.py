"""Whether a device runs its cores slower than it did at the start."""

from collections.abc import Iterable, Mapping

from odtc.runtime_rpc.metrics.samples import Samples
from odtc.runtime_rpc.metrics.usage import core_utilization
from odtc.runtime_rpc.sweep.row import Row

# A core that works for less may be slow because it has little to do.
_BUSY_PERCENT = 50.0
# Governors change by steps, and some files say a little less than a step.
_SLOWER = 0.97


def busy_frequencies(samples: Samples) -> dict[str, float]:
    """The highest frequency in hertz of each core that was busy, where it is known."""
    return {
        core: max(samples.series[name].values)
        for core in samples.cores
        if (name := f"{core}.frequency") in samples.series
        and (core_utilization(samples, core) or 0.0) >= _BUSY_PERCENT
    }


def frequencies_at_start(rows: Iterable[Row], level: str) -> dict[str, float]:
    """Those of each core when it was first busy at a level of frequency."""
    found: dict[str, float] = {}
    for row in rows:
        if row.configuration.frequency == level:
            found = {**row.frequencies, **found}
    return found


def throttling(start: Mapping[str, float], now: Mapping[str, float]) -> str:
    """Which cores are slower than at the start, for people; '' where none is."""
    slower = [
        f"{core} {now[core] / 1e9:.2f} of {start[core] / 1e9:.2f} GHz"
        for core in now
        if core in start and now[core] < _SLOWER * start[core]
    ]
    return f"throttled: {', '.join(slower)}" if slower else ""
