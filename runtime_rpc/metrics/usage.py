"""Resource usage of a run on a device, from samples of it.

The equations of Liu, Liu, Du and Li, "Performance Analysis and Characterization of Training Deep
Learning Models on Mobile Devices" (2019): utilisation of each core, of all of them, of the GPU;
energy; and the share of the run in which a core rested.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from odtc.runtime_rpc.metrics.samples import BOARD_POWER, DISCHARGING, Samples, Series


@dataclass(frozen=True)
class Usage:
    """Figures of a run. Figures that a device does not report are None, or missing.

    Attributes:
        seconds: that it took.
        core_utilization: percent of the run in which each core worked: equation 1.
        average_utilization: their mean: equation 2.
        gpu_utilization: percent: equation 3.
        energy: joules that the whole device took from its battery, or its board: equation 4.
        energy_note: why there is no energy; else empty.
        idle_ratio: share of the run, from 0 to 1, in which the utilisation of each core was 0.
        power: mean, in watts; of a battery that is being charged, the power into it.
        peak_resident: bytes of the process.
        hottest: of all temperatures, in degrees Celsius.
    """

    seconds: float
    core_utilization: Mapping[str, float]
    average_utilization: float | None
    gpu_utilization: float | None
    energy: float | None
    energy_note: str
    idle_ratio: Mapping[str, float]
    power: float | None
    peak_resident: float | None
    hottest: float | None


def usage_of(samples: Samples) -> Usage:
    """All figures of a run."""
    cores = {core: core_utilization(samples, core) for core in samples.cores}
    known = {core: value for core, value in cores.items() if value is not None}
    rests = {core: idle_ratio(samples.utilization(core)) for core in known}
    energy, note = energy_of(samples)
    heats = [max(s.values) for n, s in samples.series.items() if n.startswith("temperature.")]
    resident = samples.series.get("resident")
    return Usage(
        seconds=samples.seconds,
        core_utilization=known,
        average_utilization=sum(known.values()) / len(known) if known else None,
        gpu_utilization=_whole_mean(samples.utilization("gpu")),
        energy=energy,
        energy_note=note,
        idle_ratio={core: value for core, value in rests.items() if value is not None},
        power=_whole_mean(samples.power()),
        peak_resident=max(resident.values) if resident else None,
        hottest=max(heats, default=None),
    )


def core_utilization(samples: Samples, core: str) -> float | None:
    """Equation 1: active time of a core * 100 / time, in percent; None where it is not known.

    Ticks may count a little more than there was: it is at most 100.
    """
    busy = samples.series.get(f"{core}.busy")
    if busy is None:
        return _whole_mean(samples.utilization(core))
    total = busy.times[-1] - busy.times[0]
    return min(100.0, (busy.values[-1] - busy.values[0]) * 100 / total) if total > 0 else None


def energy_of(samples: Samples) -> tuple[float | None, str]:
    """Equation 4: the sum of interval * power, in joules; or None, and why.

    A battery shows a device's power only while it is not charged.
    """
    power = samples.power()
    if len(power.times) < 2:
        return None, "the device does not say its power"
    if BOARD_POWER not in samples.series:
        status = samples.series.get(DISCHARGING)
        if status is None:
            return None, "the device does not say whether its battery is charged"
        if not all(status.values):
            return None, "the device is plugged in: unplug it, and reach it through adb over Wi-Fi"
    return sum((end - begin) * watts for begin, end, watts in power.intervals()), ""


def idle_ratio(utilization: Series) -> float | None:
    """The share of time in which a utilisation was 0."""
    spans = [(end - begin, value) for begin, end, value in utilization.intervals()]
    total = sum(length for length, _ in spans)
    return sum(length for length, value in spans if value == 0) / total if total else None


def _whole_mean(series: Series) -> float | None:
    """The mean over all time: of a utilisation, equation 3."""
    return series.mean(series.times[0], series.times[-1]) if series.times else None


def usage_rows(usage: Usage) -> list[tuple[str, str]]:
    """Returns the known figures as rows of a table, for people."""
    cores = ", ".join(f"{value:.0f}" for value in usage.core_utilization.values())
    rests = ", ".join(f"{value:.2f}" for value in usage.idle_ratio.values())
    average, gpu, power = usage.average_utilization, usage.gpu_utilization, usage.power
    energy = f"{usage.energy:.2f} J" if usage.energy is not None else f"- ({usage.energy_note})"
    rows: list[tuple[str, Any]] = [
        ("utilisation of cores, %", cores and f"{cores} (mean {average:.0f})"),
        ("share of time at rest", rests),
        ("utilisation of the GPU, %", gpu is not None and f"{gpu:.0f}"),
        ("power, W", power is not None and f"{power:.2f}"),
        ("energy", energy),
        ("most resident bytes", usage.peak_resident and f"{usage.peak_resident:,.0f}"),
        ("hottest, °C", usage.hottest is not None and f"{usage.hottest:.1f}"),
    ]
    return [(name, text) for name, text in rows if text]
