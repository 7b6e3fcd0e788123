"""A thread that samples the state of the device, while the process computes something else.

Files stay open and are kept as they were read; they are parsed when all is over. So a sample costs
the process little more than the reads. One that is slow, such as a sensor behind a bus, is read
less often, so that none takes more than `MOST` of a core's time; and where all of it takes more
than `MOST_OF_ALL`, samples are taken half as often from then on.
"""

import math
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from odtc.runtime_rpc.server.cores import unbind
from odtc.runtime_rpc.server.measure.sources import SOURCES, MetricSource

# The share of one core that reading one file may take.
MOST = 0.002
# The share of one core that the thread may take, and the rounds between two checks of it.
MOST_OF_ALL, _LOOKED_AT = 0.01, 32
RARELY = 10
# Rounds that are kept. Beyond it every other one is dropped, and sampling is half as frequent.
_ROUNDS = 60_000
_TRIES = 3
_SPARE = 512

_NO_FILE = FileNotFoundError, NotADirectoryError
VALUE, DENIED, ABSENT = "value", "denied", "absent"


@dataclass(frozen=True)
class Probe:
    """The state of a source.

    Attributes:
        state: `value`, `denied` or `absent`.
        detail: files that are read, or why there are none; a remark of the source.
    """

    state: str
    detail: str


@dataclass
class _Reader:
    """A file that is read again and again."""

    source: MetricSource
    label: str
    file: int
    size: int
    every: int
    read: list[tuple[float, bytes]] = field(default_factory=list)

    def take(self, now: float) -> None:
        """Reads the file; a failing one may work again, such as that of a core that was offline."""
        try:
            self.read.append((now, os.pread(self.file, self.size, 0)))
        except OSError:
            return

    def values(self) -> Iterator[tuple[str, float, float]]:
        """Series, time and value of all that was read."""
        for now, data in self.read:
            try:
                parsed = list(self.source.parse(data.decode(errors="replace"), self.label))
            except (ValueError, IndexError):
                continue
            for series, value in parsed:
                yield series, now, value


class Sampler:
    """Samples from `start` to `stop`.

    Args:
        period: seconds between samples.
        root: of `/proc` and `/sys`; another one is a fixture.

    Attributes:
        probes: the state of each source, by its name.
    """

    def __init__(self, period: float, root: str = "/") -> None:
        self._period, self._root = period, root
        self._readers: list[_Reader] = []
        self.probes = {source.name: self._probe(source) for source in SOURCES}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="odtc-sampler", daemon=True)
        self._began = 0.0

    def start(self) -> None:
        """Begins to sample."""
        self._began = time.monotonic()
        self._round(0)
        self._thread.start()

    def stop(self) -> dict[str, Any]:
        """Ends it.

        Returns:
            `began`, `ended`: by this process's monotonic clock, in seconds. `period`: at the end.
            `fixture`: whether the files are not the system's own. `probes`. `series`: for each name
            `times` and `values`, in the unit that `unit_of` says.
        """
        self._stopping.set()
        self._thread.join()
        self._round(0)
        ended = time.monotonic()
        series: dict[str, dict[str, list[float]]] = {}
        for reader in self._readers:
            os.close(reader.file)
            for name, now, value in reader.values():
                one = series.setdefault(name, {"times": [], "values": []})
                one["times"].append(now)
                one["values"].append(value)
        return {
            "began": self._began,
            "ended": ended,
            "period": self._period,
            "fixture": self._root != "/",
            "probes": {name: asdict(probe) for name, probe in self.probes.items()},
            "series": series,
        }

    def _run(self) -> None:
        unbind()
        number, due = 1, self._began + self._period
        looked, spent = self._began, time.thread_time()
        while not self._stopping.wait(max(0.0, due - time.monotonic())):
            self._round(number)
            number += 1
            if number > _ROUNDS:
                number = self._thin(number)
            if number % _LOOKED_AT == 0:
                now, own = time.monotonic(), time.thread_time()
                if own - spent > MOST_OF_ALL * (now - looked):
                    self._period *= 2
                looked, spent = now, own
            # Missed rounds are not made up for.
            due = max(due + self._period, time.monotonic())

    def _round(self, number: int) -> None:
        now = time.monotonic()
        for reader in self._readers:
            if number % reader.every == 0:
                reader.take(now)

    def _thin(self, number: int) -> int:
        for reader in self._readers:
            del reader.read[1::2]
        self._period *= 2
        return number // 2

    def _probe(self, source: MetricSource) -> Probe:
        """Opens the files of a source that exist."""
        failures: list[OSError | ValueError] = []
        for pattern in source.files:
            paths = _matching(Path(self._root), pattern, failures.append)
            readers = [self._open(source, path, failures.append) for path in paths]
            found = [reader for reader in readers if reader]
            if found:
                self._readers += found
                files = f"/{pattern}" if len(found) == 1 else f"{len(found)} files /{pattern}"
                return Probe(VALUE, "; ".join(filter(None, (files, source.remark))))
        denied = next((each for each in failures if isinstance(each, PermissionError)), None)
        if denied:
            return Probe(DENIED, str(denied))
        there = next((each for each in failures if not isinstance(each, _NO_FILE)), None)
        return Probe(ABSENT, str(there) if there else f"no /{source.files[0]}, nor another file")

    def _open(
        self, source: MetricSource, path: Path, failed: Callable[[OSError | ValueError], None]
    ) -> _Reader | None:
        """Opens a reader of a file; None unless the file has a value."""
        file = -1
        try:
            file = os.open(path, os.O_RDONLY)
            label, taken = source.label(path, _text_of), []
            data = b""
            for _ in range(_TRIES):
                began = time.perf_counter()
                data = os.pread(file, 1 << 16, 0)
                taken.append(time.perf_counter() - began)
            if not list(source.parse(data.decode(errors="replace"), label)):
                raise ValueError(f"{path} says nothing")
        except (OSError, ValueError, IndexError) as error:
            if file >= 0:
                os.close(file)
            failed(error if isinstance(error, OSError) else ValueError(f"{path}: {error}"))
            return None
        seldom = math.ceil(statistics.median(taken) / (MOST * self._period))
        every = max(seldom, RARELY if source.rarely else 1)
        end = data.find(source.until.encode()) if source.until else len(data)
        return _Reader(source, label, file, (len(data) if end < 0 else end) + _SPARE, every)


def _text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _matching(root: Path, pattern: str, failed: Callable[[OSError], None]) -> list[Path]:
    """Files of a pattern. Unlike `glob`, it distinguishes an unreadable folder from none."""
    found = [root]
    for part in pattern.split("/"):
        if "*" not in part:
            found = [folder / part for folder in found]
            continue
        wider: list[Path] = []
        for folder in found:
            try:
                names = sorted(os.listdir(folder), key=lambda name: (len(name), name))
                wider += [folder / name for name in names if Path(name).match(part)]
            except OSError as error:
                failed(error)
        found = wider
    return found
