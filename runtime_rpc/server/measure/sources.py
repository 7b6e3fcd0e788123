"""Sources of a device's state in `/proc` and `/sys`: which files, and how they are read.

Standard library only, as all of the server: see `server_files`. A series is named `cpu0.busy`,
`resident` or `temperature.skin-3`; its last word, or its first one, has a unit (`unit_of`).
"""

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

_TICK_SECONDS = 1 / (os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100)
_IDLE, _WAITING, _COUNTED = 3, 4, 8
_CPU_LINE = re.compile(r"^(cpu\d+) (.*)$", re.MULTILINE)
_NUMBER = re.compile(r"\d+(\.\d+)?")
_AT_HERTZ = re.compile(r"(\d+)@(\d+)Hz")

Values = Iterator[tuple[str, float]]
# Parsers map a file's text and its label to values by series.
Parse = Callable[[str, str], Values]
ReadText = Callable[[Path], str]


@dataclass(frozen=True)
class MetricSource:
    """A quantity that a device may report.

    Attributes:
        name: of the source.
        files: below the root; `*` matches any part of a name. Of several, the first that can be
            read is taken.
        parse: reads one of its files; a `ValueError` says that it is none of these.
        label: of a file, from its path, and the texts of files beside it.
        until: the text after which a file has nothing of use.
        rarely: whether it is read at every tenth sample.
        remark: what a reader of its values has to know.
    """

    name: str
    files: tuple[str, ...]
    parse: Parse
    label: Callable[[Path, ReadText], str] = lambda path, _: ""
    until: str = ""
    rarely: bool = False
    remark: str = ""


def _cores(text: str, _: str) -> Values:
    """Seconds that each core was busy and idle since the device was started."""
    for name, numbers in _CPU_LINE.findall(text):
        ticks = [int(number) for number in numbers.split()[:_COUNTED]]
        resting = ticks[_IDLE] + ticks[_WAITING]
        yield f"{name}.busy", (sum(ticks) - resting) * _TICK_SECONDS
        yield f"{name}.idle", resting * _TICK_SECONDS


def _number(series: str, scale: float) -> Parse:
    """A file that holds one number."""

    def parse(text: str, label: str) -> Values:
        yield series.format(label), int(text) * scale

    return parse


def _field(series: str, key: str) -> Parse:
    """A line such as `VmRSS:  123 kB`."""
    line = re.compile(rf"^{key}:\s*(\d+) kB", re.MULTILINE)

    def parse(text: str, _: str) -> Values:
        match = line.search(text)
        if match is None:
            raise ValueError(f"nothing of {key}")
        yield series, float(int(match[1]) << 10)

    return parse


def _status(text: str, _: str) -> Values:
    """Whether a battery reports that it is not charging."""
    yield "battery.discharging", float(text.strip() == "Discharging")


def _gpu(text: str, path: str) -> Values:
    """Load of a GPU, in each of the forms that drivers report it in."""
    name = Path(path).name
    if name == "gpubusy":
        # Adreno: microseconds of work, and of their window.
        busy, window = map(int, text.split())
        yield "gpu.utilization", 100 * busy / window if window else 0.0
    elif name == "load":
        # devfreq reports percent and a frequency, Jetson's driver thousandths.
        match = _AT_HERTZ.match(text)
        yield "gpu.utilization", float(match[1]) if match else int(text) / 10
        if match:
            yield "gpu.frequency", float(match[2])
    else:
        # `12 %`, `12%`, `12`; or MediaTek's `12 0 88`, which begins with the load.
        match = _NUMBER.match(text)
        if match is None:
            raise ValueError(f"{text.strip()!r} is no share")
        yield "gpu.utilization", float(match[0])


def _core_of(path: Path, _: ReadText) -> str:
    return path.parts[-3]


def _zone(path: Path, read: ReadText) -> str:
    """The type of a thermal zone with its number: several may be of one type."""
    number = path.parent.name.removeprefix("thermal_zone")
    try:
        kind = read(path.parent / "type").strip()
    except (OSError, ValueError, LookupError):
        kind = "zone"
    return f"{kind}-{number}"


_KGSL = "sys/class/kgsl/kgsl-3d0"
_BATTERY = "sys/class/power_supply/battery", "sys/class/power_supply/BAT*"
SOURCES = (
    MetricSource(
        "cores",
        ("proc/stat",),
        _cores,
        until="intr",
        remark=f"Linux counts it in ticks of {1000 * _TICK_SECONDS:g} ms",
    ),
    MetricSource(
        "frequency",
        ("sys/devices/system/cpu/cpu*/cpufreq/scaling_cur_freq",),
        _number("{}.frequency", 1e3),
        _core_of,
    ),
    MetricSource("resident", ("proc/self/status",), _field("resident", "VmRSS"), rarely=True),
    MetricSource("available", ("proc/meminfo",), _field("available", "MemAvailable"), rarely=True),
    MetricSource(
        "temperature",
        ("sys/class/thermal/thermal_zone*/temp",),
        _number("temperature.{}", 1e-3),
        _zone,
        rarely=True,
    ),
    MetricSource(
        "battery current",
        tuple(f"{folder}/current_now" for folder in _BATTERY),
        _number("battery.current", 1e-6),
        remark="its sign differs between phones; its driver may measure less often",
    ),
    MetricSource(
        "battery voltage",
        tuple(f"{folder}/voltage_now" for folder in _BATTERY),
        _number("battery.voltage", 1e-6),
    ),
    MetricSource(
        "battery status", tuple(f"{folder}/status" for folder in _BATTERY), _status, rarely=True
    ),
    MetricSource(
        "gpu",
        (
            f"{_KGSL}/gpubusy",
            f"{_KGSL}/gpu_busy_percentage",
            "sys/class/misc/mali0/device/utilization",
            "sys/devices/platform/*.mali/utilization",
            "sys/kernel/gpu/gpu_busy",
            "sys/class/devfreq/gpufreq/mali_ondemand/utilisation",
            "sys/kernel/ged/hal/gpu_utilization",
            "sys/module/ged/parameters/gpu_loading",
            "sys/class/devfreq/*.gpu/load",
            "sys/class/devfreq/*.mali/load",
            "sys/devices/gpu.0/load",
        ),
        _gpu,
        lambda path, _: str(path),
        remark="over a window that its driver chooses, of up to a second",
    ),
    MetricSource("gpu frequency", (f"{_KGSL}/gpuclk",), _number("gpu.frequency", 1.0)),
    MetricSource(
        "gpu frequency of devfreq",
        ("sys/class/devfreq/*.mali/cur_freq", "sys/class/devfreq/*.gpu/cur_freq"),
        _number("gpu.frequency", 1.0),
    ),
)

_UNITS = {
    "busy": "s",
    "idle": "s",
    "frequency": "Hz",
    "resident": "B",
    "available": "B",
    "temperature": "°C",
    "current": "A",
    "voltage": "V",
    "discharging": "",
    "utilization": "%",
    "power": "W",
}


def unit_of(series: str) -> str:
    """The unit of a series of samples."""
    first, _, last = series.rpartition(".")
    return _UNITS.get(last) or _UNITS.get(first, "")
