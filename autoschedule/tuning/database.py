"""Records in a file of JSON lines, to which lines are only ever added.

A line is written in one call, under a lock, and is on the disk before the next trial begins. What a
crash has torn ends without a newline: the next writer begins a new line, and a reader
skips what is none. So nothing that was measured is ever lost, and two processes may share a file.
"""

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from odtc.autoschedule.tuning.record import Fit, Record, TuningPlace, record_of
from odtc.autoschedule.tuning.times import times_of
from odtc.backends.cost.measured_times import NOTHING, MeasuredTimes
from odtc.backends.decisions import TunedChoice
from odtc.core.disk.files import atomic_write
from odtc.core.disk.locks import wait_for_lock
from odtc.core.errors import DataError, OutputError

_HINT = "name another file with --database"


@dataclass(frozen=True)
class Records:
    """The records of a file.

    Attributes:
        records: in the order in which they were written.
        damaged: number of lines that are no record.
    """

    records: tuple[Record, ...] = ()
    damaged: int = 0


def user_database() -> Path:
    """The file that `odtc tune` writes and `odtc compile` reads unless another one is named."""
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "odtc" / "tuned.jsonl"


def read(path: Path) -> Records:
    """Reads a file; one that does not exist has no records.

    Raises:
        DataError: none of its lines is a record, or it cannot be read.
    """
    try:
        text = path.read_bytes().decode("utf-8", "replace") if path.exists() else ""
    except OSError as error:
        raise DataError(
            f"the records cannot be read: {error.strerror or error}", where=str(path), hint=_HINT
        ) from error
    found, damaged = [], 0
    for line in filter(str.strip, text.split("\n")):
        try:
            found.append(record_of(line))
        except (ValueError, KeyError, TypeError, AttributeError):
            damaged += 1
    if damaged and not found and text.endswith("\n"):
        raise DataError("the file holds no tuning records", where=str(path), hint=_HINT)
    return Records(tuple(found), damaged)


def add(path: Path, records: Iterable[Record]) -> None:
    """Appends records durably; the file is created if it does not exist.

    Raises:
        OutputError: they cannot be written.
    """
    lines = "".join(f"{each.to_json()}\n" for each in records).encode()
    try:
        with suppress(FileExistsError):
            path.parent.mkdir(parents=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            wait_for_lock(file)
            torn = os.fstat(file).st_size and _last_byte(file) != b"\n"
            _write_all(file, b"\n" + lines if torn else lines)
            os.fsync(file)
        finally:
            os.close(file)
    except OSError as error:
        raise OutputError(
            f"the records cannot be saved: {error.strerror or error}", where=str(path), hint=_HINT
        ) from error


def _last_byte(file: int) -> bytes:
    os.lseek(file, -1, os.SEEK_END)
    return os.read(file, 1)


def _write_all(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


def replace(path: Path, records: Iterable[Record]) -> None:
    """Writes a file anew, whole or not at all.

    Raises:
        OutputError: it cannot be written.
    """
    with atomic_write(path) as temporary:
        temporary.write_text("".join(f"{each.to_json()}\n" for each in records), encoding="utf-8")


def merged(*of: Iterable[Record]) -> list[Record]:
    """The records of all, each once."""
    return list({each.to_json(): each for records in of for each in records}.values())


def pruned(records: Iterable[Record], odtc: str, tvm: str) -> list[Record]:
    """Returns the records worth keeping: of these versions, the best of each workload and place.

    Trials are dropped, so a search would measure them again.
    """
    best: dict[tuple, Record] = {}
    for each in records:
        key = (each.workload, each.target, each.device)
        if each.kept and (each.odtc, each.tvm) == (odtc, tvm):
            best[key] = max(best.get(key, each), each, key=lambda record: record.gain)
    return list(best.values())


@dataclass(frozen=True)
class Tuned:
    """Records that serve a place: the lookup that kernels are written by.

    Attributes:
        place: where kernels will run.
        known: the best record of each workload that fits it, and how well.
        times: of calls there, by these and by trials.
    """

    place: TuningPlace
    known: dict[str, tuple[Record, Fit]] = field(default_factory=dict)
    times: MeasuredTimes = NOTHING

    def __call__(self, workload: str) -> TunedChoice | None:
        """Returns the recorded choice for a workload; None where the machine's model decides."""
        record, fit = self.known.get(workload, (None, None))
        if record is None or fit is None or not record.is_better:
            return None
        return TunedChoice(record.choice, f"{fit.value}, {record.device.name}, {record.date[:10]}")


def tuned(records: Sequence[Record], place: TuningPlace, threads: int = 1) -> Tuned:
    """The records that serve a place, whose kernels keep so many threads busy.

    Of those of a workload that were kept, the best one of this device, else of its family.
    """
    known: dict[str, tuple[Record, Fit]] = {}
    for record in records:
        fit = record.fit(place) if record.kept else None
        if fit:
            found = known.setdefault(record.workload, (record, fit))
            known[record.workload] = max(found, (record, fit), key=_rank)
    gains = {name: record.gain for name, (record, _) in known.items() if record.is_better}
    return Tuned(place, known, times_of(records, place, threads, gains))


def _rank(found: tuple[Record, Fit]) -> tuple[bool, float]:
    record, fit = found
    return fit is Fit.DEVICE, record.gain
