"""Samples of a device whose server keeps what it reads as it is: see `recorder.h`.

SOURCES ─ wanted ─→ device ─→ bytes ─ parsed ─→ as `Sampler.stop` gives it
"""

import errno
import os
import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from odtc.runtime_rpc.server.measure.sampler import ABSENT, DENIED, RARELY, VALUE, Probe
from odtc.runtime_rpc.server.measure.sources import SOURCES, MetricSource

_HEAD = struct.Struct("<dddQ")
_FILE = struct.Struct("<QQQQ")
_SAMPLE = struct.Struct("<dQ")
# Beside those of the sources: what their labels are made of.
_LABELS = ("sys/class/thermal/thermal_zone*/type",)
_DENIED = {errno.EACCES, errno.EPERM}
_GONE = {errno.ENOENT, errno.ENOTDIR}


def wanted() -> str:
    """What a server is asked to read: a line for each pattern of files, in the order of sources."""
    lines = [
        f"{RARELY if source.rarely else 1}\t{source.until}\t{pattern}"
        for source in SOURCES
        for pattern in source.files
    ]
    return "\n".join([*lines, *(f"{1 << 30}\t\t{pattern}" for pattern in _LABELS)])


@dataclass(frozen=True)
class _File:
    """What was read of a file: why nothing, as errno, or times and bytes."""

    path: Path
    why: int
    read: list[tuple[float, bytes]]

    def values(self, source: MetricSource, label: str) -> Iterator[tuple[str, float, float]]:
        """Series, time and value of all that was read."""
        for now, data in self.read:
            try:
                found = list(source.parse(data.decode(errors="replace"), label))
            except (ValueError, IndexError):
                continue
            for series, value in found:
                yield series, now, value


def parsed(data: bytes, root: str) -> dict[str, Any]:
    """What a server has read.

    Args:
        data: as it came.
        root: on the device, below which it was read.

    Returns:
        As of `Sampler.stop`.

    Raises:
        ValueError: it was cut, or is something else.
    """
    try:
        (began, ended, period, count), files = _HEAD.unpack_from(data), {}
        at = _HEAD.size
        for _ in range(count):
            at = _read_file(data, at, files)
    except struct.error as error:
        raise ValueError(f"no record of samples: {error}") from error
    labels = sum(len(source.files) for source in SOURCES)
    texts = {
        file.path: file.read[0][1].decode(errors="replace")
        for file in files.get(labels, [])
        if file.read
    }
    series: dict[str, dict[str, list[float]]] = {}
    probes, first = {}, 0
    for source in SOURCES:
        own = [files.get(first + number, []) for number in range(len(source.files))]
        probes[source.name] = asdict(_probed(source, own, texts, series))
        first += len(source.files)
    return {
        **{"began": began, "ended": ended, "period": period, "fixture": root != "/"},
        **{"probes": probes, "series": series},
    }


def _read_file(data: bytes, at: int, files: dict[int, list[_File]]) -> int:
    """Adds a file to those of its pattern; where the next one begins."""
    pattern, why, path_bytes, samples = _FILE.unpack_from(data, at)
    at += _FILE.size
    path = Path(os.fsdecode(data[at : at + path_bytes]))
    at, read = at + path_bytes, []
    end = at + samples
    while at < end:
        now, count = _SAMPLE.unpack_from(data, at)
        at += _SAMPLE.size
        read.append((now, data[at : at + count]))
        at += count
    files.setdefault(pattern, []).append(_File(path, why, read))
    return end


def _probed(
    source: MetricSource,
    patterns: list[list[_File]],
    texts: dict[Path, str],
    series: dict[str, dict[str, list[float]]],
) -> Probe:
    """Adds the series of the first pattern that has any; what became of the source."""
    for pattern, files in zip(source.files, patterns, strict=True):
        found = 0
        for file in files:
            values = list(file.values(source, source.label(file.path, texts.__getitem__)))
            found += bool(values)
            for name, now, value in values:
                one = series.setdefault(name, {"times": [], "values": []})
                one["times"].append(now)
                one["values"].append(value)
        if found:
            where = f"/{pattern}" if found == 1 else f"{found} files /{pattern}"
            return Probe(VALUE, "; ".join(filter(None, (where, source.remark))))
    return _why_not(source, [file for files in patterns for file in files])


def _why_not(source: MetricSource, files: list[_File]) -> Probe:
    for state, known in ((DENIED, _DENIED), (ABSENT, None)):
        for file in files:
            if file.why in known if known else file.why and file.why not in _GONE:
                return Probe(state, f"{file.path}: {os.strerror(file.why)}")
    silent = next((file for file in files if not file.why), None)
    if silent:
        return Probe(ABSENT, f"{silent.path} says nothing")
    return Probe(ABSENT, f"no /{source.files[0]}, nor another file")
