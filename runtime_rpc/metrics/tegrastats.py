"""Samples from the output of a Jetson's `tegrastats`, one line to an interval.

NVIDIA's Jetson Linux Developer Guide, "tegrastats Utility", says what the fields are. Of rails, the
first says the present power in milliwatts, the second the mean; older versions print no unit.
"""

import re
from collections.abc import Iterable, Iterator

from odtc.core.errors import DataError
from odtc.runtime_rpc.metrics.samples import BOARD_POWER, Samples, Series

_CPUS = re.compile(r"\bCPU \[([^\]]*)\]")
_CPU = re.compile(r"(\d+)%(?:@(\d+))?")
_GPU = re.compile(r"\bGR3D_FREQ (\d+)%(?:@\[?(\d+))?")
_RAM = re.compile(r"\bRAM (\d+)/(\d+)MB")
_HEAT = re.compile(r"\b(\w+)@(-?\d+(?:\.\d+)?)C\b")
_RAIL = re.compile(r"\b((?:VDD|POM|VIN)_\w+) (\d+)(?:mW)?/\d+(?:mW)?")
# Rails of whole boards, by the names of several models.
_BOARD = ("VDD_IN", "POM_5V_IN", "VIN_SYS_5V0")
_MEGA = 1e6


def parse_tegrastats(lines: Iterable[str], interval: float) -> Samples:
    """Reads a log.

    Args:
        lines: as `tegrastats --logfile` writes them.
        interval: seconds between lines, as `--interval` says in milliseconds.

    Raises:
        DataError: no line is one of tegrastats.
    """
    found: dict[str, tuple[list[float], list[float]]] = {}
    number = 0
    for line in lines:
        if not _CPUS.search(line):
            continue
        for name, value in _values(line):
            times, values = found.setdefault(name, ([], []))
            times.append(number * interval)
            values.append(value)
        number += 1
    if not number:
        raise DataError(
            "no line comes from tegrastats", hint="record one with `tegrastats --logfile FILE`"
        )
    series = {name: Series(tuple(times), tuple(values)) for name, (times, values) in found.items()}
    return Samples(0.0, (number - 1) * interval, series, period=interval)


def _values(line: str) -> Iterator[tuple[str, float]]:
    cpus = _CPUS.search(line)
    for number, text in enumerate(cpus[1].split(",") if cpus else ()):
        match = _CPU.match(text.strip())
        # A core that is offline is idle.
        yield f"cpu{number}.utilization", float(match[1]) if match else 0.0
        if match and match[2]:
            yield f"cpu{number}.frequency", int(match[2]) * _MEGA
    gpu = _GPU.search(line)
    if gpu:
        yield "gpu.utilization", float(gpu[1])
        if gpu[2]:
            yield "gpu.frequency", int(gpu[2]) * _MEGA
    memory = _RAM.search(line)
    if memory:
        yield "available", float((int(memory[2]) - int(memory[1])) << 20)
    for name, degrees in _HEAT.findall(line):
        yield f"temperature.{name}", float(degrees)
    for name, milliwatts in _RAIL.findall(line):
        yield BOARD_POWER if name in _BOARD else f"{name}.power", int(milliwatts) / 1e3
