"""A row: the measurement of a configuration in one round, and the summary of all its rounds."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from odtc.core.disk.row_file import RowFile


@dataclass(frozen=True)
class Configuration:
    """A way to run a step.

    Attributes:
        model: name of the model or the artifact.
        batch: samples in a step.
        cores: as of `Session.use_threads`; '' of a step on a GPU.
        threads: worker threads; 0 of a step on a GPU.
        frequency: `high`, `mid` or `low`; '' where the device chooses.
    """

    model: str
    batch: int
    cores: str
    threads: int
    frequency: str = ""


@dataclass(frozen=True)
class SweepRow:
    """One measurement.

    Attributes:
        configuration: the one that was measured.
        round: its number; configurations take turns within one.
        seconds: of each step, in order.
        clock: `host`, or `device` where the link is not in the times.
        reason: why there are no times; '' where there are.
        energy: joules that the whole device took for all steps; None where unknown.
        energy_note: why there is no energy.
        heat: degrees Celsius before the measurement, see `cooldown.heat_of`; None where unknown.
        frequencies: in hertz, the highest of each core that was busy.
        notes: caveats for a reader, such as throttling.
        resident: peak resident bytes of the process.
        emulated: whether the device is emulated, so that times are no results.
        fixture: whether the samples are not the device's own.
    """

    configuration: Configuration
    round: int
    seconds: tuple[float, ...] = ()
    clock: str = "host"
    reason: str = ""
    energy: float | None = None
    energy_note: str = ""
    heat: float | None = None
    frequencies: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    resident: float | None = None
    emulated: bool = False
    fixture: bool = False

    def to_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return asdict(self)


def row_of(data: Mapping[str, Any]) -> SweepRow:
    """Reads a row from the form of `to_dict`."""
    own: dict[str, Any] = {key: data[key] for key in SweepRow.__dataclass_fields__}
    own |= {key: tuple(own[key]) for key in ("seconds", "notes")}
    own["configuration"] = Configuration(**own["configuration"])
    return SweepRow(**own)


def row_file(path: Path, identity: Mapping[str, Any]) -> RowFile[SweepRow]:
    """The file of a sweep; see `RowFile` for errors."""
    return RowFile(path, "sweep", identity, row_of)


@dataclass(frozen=True)
class SweepResult:
    """A configuration over all of its rounds.

    Attributes:
        configuration: it.
        rows: of its rounds, in order.
    """

    configuration: Configuration
    rows: tuple[SweepRow, ...]

    @property
    def reason(self) -> str:
        """The reason why it cannot be measured; '' where it can."""
        return next((row.reason for row in self.rows if row.reason), "")

    @property
    def seconds(self) -> list[float]:
        """Seconds of all steps, rising."""
        return sorted(time for row in self.rows for time in row.seconds)

    @property
    def step_energy(self) -> float | None:
        """Joules of a step: the median of the rounds that have it."""
        told = [row.energy / len(row.seconds) for row in self.rows if row.energy is not None]
        return median(told) if told else None

    @property
    def is_real(self) -> bool:
        """Whether these are measurements of a device."""
        return not any(row.emulated for row in self.rows)


def results_of(rows: Iterable[SweepRow]) -> list[SweepResult]:
    """Results in the order of the first rows of their configurations."""
    found: dict[Configuration, list[SweepRow]] = {}
    for row in rows:
        found.setdefault(row.configuration, []).append(row)
    return [SweepResult(configuration, tuple(each)) for configuration, each in found.items()]
