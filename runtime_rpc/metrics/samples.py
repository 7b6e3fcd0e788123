"""Time series of a device's state, such as load, frequency, temperature and power."""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from odtc.runtime_rpc.server.measure.sampler import Probe
from odtc.runtime_rpc.server.measure.sources import unit_of

_UTILIZATION, _BUSY, _IDLE = "utilization", "busy", "idle"
# Power of the whole device, where something measures it; else it is the battery's.
BOARD_POWER = "board.power"
DISCHARGING = "battery.discharging"


@dataclass(frozen=True)
class Series:
    """A time series; each value is of the interval that ends at its time.

    Attributes:
        times: in seconds, rising.
        values: as many.
    """

    times: tuple[float, ...] = ()
    values: tuple[float, ...] = ()

    def intervals(self) -> Iterator[tuple[float, float, float]]:
        """Begin, end and value of each interval; the first value has none."""
        yield from zip(self.times, self.times[1:], self.values[1:], strict=False)

    def mean(self, begin: float, end: float) -> float | None:
        """The mean over a span of time, by the intervals that it meets; None if it meets none."""
        first = max(1, bisect_right(self.times, begin))
        last = min(bisect_left(self.times, end) + 1, len(self.times))
        weight = total = 0.0
        for number in range(first, last):
            shared = min(end, self.times[number]) - max(begin, self.times[number - 1])
            weight += shared
            total += shared * self.values[number]
        return total / weight if weight > 0 else None

    def within(self, begin: float, end: float) -> "Series":
        """Returns the samples that were taken in a span of time."""
        first, last = bisect_left(self.times, begin), bisect_right(self.times, end)
        return Series(self.times[first:last], self.values[first:last])


@dataclass(frozen=True)
class Samples:
    """Samples of a device.

    Attributes:
        began: when, by the device's monotonic clock in seconds.
        ended: when.
        series: by name, as they were read; `utilization` and `power` are derived from them.
        probes: the state of each source.
        period: seconds between samples at the end, of sources that are not read less often; longer
            than was asked for where samples would have cost too much.
        fixture: whether the values come from files that are not the system's own.
        emulated: whether the device is emulated.
    """

    began: float
    ended: float
    series: Mapping[str, Series]
    probes: Mapping[str, Probe] = field(default_factory=dict)
    period: float = 0.0
    fixture: bool = False
    emulated: bool = False

    @property
    def seconds(self) -> float:
        """Seconds that sampling lasted."""
        return self.ended - self.began

    @property
    def is_real(self) -> bool:
        """Whether these are measurements of a device."""
        return not (self.fixture or self.emulated)

    @property
    def cores(self) -> tuple[str, ...]:
        """Names of the cores, such as `cpu0`."""
        names = {name.rpartition(".")[0] for name in self.series if name.startswith("cpu")}
        return tuple(sorted(names, key=lambda name: int(name.removeprefix("cpu"))))

    def within(self, begin: float, end: float) -> "Samples":
        """Returns the samples of a span of time, without series that have none in it."""
        cut = {name: series.within(begin, end) for name, series in self.series.items()}
        kept = {name: series for name, series in cut.items() if series.times}
        return replace(self, began=begin, ended=end, series=kept)

    def utilization(self, unit: str) -> Series:
        """Load of a core, or of `gpu`, in percent; empty where unknown.

        Counts of ticks do not resolve an interval without one: it is merged with the next one.
        """
        told = self.series.get(f"{unit}.{_UTILIZATION}")
        if told or f"{unit}.{_BUSY}" not in self.series:
            return told or Series()
        busy, idle = self.series[f"{unit}.{_BUSY}"], self.series[f"{unit}.{_IDLE}"]
        times, values = [busy.times[0]], [0.0]
        before = busy.values[0], idle.values[0]
        for time, *now in zip(busy.times[1:], busy.values[1:], idle.values[1:], strict=True):
            worked, rested = now[0] - before[0], now[1] - before[1]
            if worked + rested > 0:
                times.append(time)
                values.append(100 * worked / (worked + rested))
                before = now[0], now[1]
        return Series(tuple(times), tuple(values))

    def power(self) -> Series:
        """Watts that the device draws, of its board or its battery; empty where unknown.

        Of a battery that is charged it is what flows into it.
        """
        if BOARD_POWER in self.series:
            return self.series[BOARD_POWER]
        current, voltage = (self.series.get(f"battery.{it}") for it in ("current", "voltage"))
        if not current or not voltage:
            return Series()
        last = [max(0, bisect_right(voltage.times, time) - 1) for time in current.times]
        pairs = zip(current.values, last, strict=True)
        return Series(current.times, tuple(abs(it) * voltage.values[at] for it, at in pairs))

    def to_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return asdict(self) | {"units": {name: unit_of(name) for name in self.series}}


def samples_of(data: Mapping[str, Any], *, emulated: bool = False) -> Samples:
    """Reads samples from the form of a sampler or of `Samples.to_dict`."""
    series = {
        name: Series(tuple(one["times"]), tuple(one["values"]))
        for name, one in data["series"].items()
    }
    probes = {name: Probe(**probe) for name, probe in data["probes"].items()}
    kept = {name: data[name] for name in ("began", "ended", "period", "fixture")}
    return Samples(series=series, probes=probes, emulated=emulated, **kept)


def read_samples(text: str, *, emulated: bool = False) -> Samples:
    """Samples from the JSON text of a device."""
    return samples_of(json.loads(text), emulated=emulated)
