"""A row: the measurement of an engine in one round of a case, and the file that keeps rows."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from odtc.comparison.outcome import Outcome
from odtc.core.disk.row_file import RowFile
from odtc.core.typed import any_floats, typed

KIND = "comparison"


@dataclass(frozen=True, order=True)
class Setting:
    """The settings that all engines of a turn share.

    Attributes:
        model: its name.
        batch: samples in a step.
        threads: worker threads of each engine.
    """

    model: str
    batch: int
    threads: int

    def text(self) -> str:
        """Returns it as text for people."""
        return f"{self.model}, batch {self.batch}, threads {self.threads}"


@dataclass(frozen=True)
class ComparisonRow:
    """The measurement of one engine.

    Attributes:
        setting: at which it was measured.
        round: its number; engines of a round took turns with each other.
        engine: its name; odtc with a budget is an engine of its own.
        outcome: how it ended.
        reason: why it has no times, or fewer.
        lr: learning rate of plain SGD.
        losses: of the first steps, before their updates.
        seconds: of each timed step, in order; turn by turn beside those of the others.
        cpu_seconds: that all its threads together computed, or waited in a loop, in these.
        prepare_seconds: that compiling or converting took; it is done once for all rounds.
        load_seconds: from the end of the imports to the first step.
        imported: resident bytes after the imports, before anything was loaded.
        ready: before the first step.
        peak: the most during all steps.
        planned: bytes that odtc plans: arena, parameters and optimizer state.
        busy: share of the cores that other programs kept busy, before and after all turns.
        flops: floating-point operations of a step, counted in the ONNX graph; 0 if unknown.
        moved: bytes of a step where each node reads and writes memory once; 0 if unknown.
        fma: operations a second that the machine does in registers at most; 0 if not measured.
        copy: bytes a second that it copies at most; 0 if not measured.
        began: when the round began, in ISO 8601.
    """

    setting: Setting
    round: int
    engine: str
    outcome: Outcome
    reason: str = ""
    lr: float = 0.0
    losses: tuple[float, ...] = ()
    seconds: tuple[float, ...] = ()
    cpu_seconds: tuple[float, ...] = ()
    prepare_seconds: float | None = None
    load_seconds: float | None = None
    imported: int | None = None
    ready: int | None = None
    peak: int | None = None
    planned: int | None = None
    busy: tuple[float, ...] = ()
    flops: int = 0
    moved: int = 0
    fma: float = 0.0
    copy: float = 0.0
    began: str = ""

    @property
    def net(self) -> int | None:
        """The peak without the imports, of which a process may have given some back."""
        if self.peak is None or self.imported is None:
            return None
        return max(0, self.peak - self.imported)

    def to_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return dataclasses.asdict(self)


def row_of(data: Mapping[str, Any]) -> ComparisonRow:
    """Reads a row from the form of `to_dict`.

    Raises:
        KeyError: something lacks.
        ValueError: something is of another type, a step took no time, or processor times are not
            those of the steps.
    """
    told = {key: data[key] for key in ComparisonRow.__dataclass_fields__}
    # Losses alone may be NaN, or negative.
    losses = any_floats(told.pop("losses"))
    row = replace(typed(ComparisonRow, told), losses=losses)
    if not all(row.seconds):
        raise ValueError("seconds: a step that took no time")
    if row.cpu_seconds and len(row.cpu_seconds) != len(row.seconds):
        raise ValueError(f"cpu_seconds: {len(row.cpu_seconds)} of {len(row.seconds)} steps")
    return row


def row_file(path: Path, identity: Mapping[str, Any]) -> RowFile[ComparisonRow]:
    """The file of a comparison; see `RowFile` for errors."""
    return RowFile(path, KIND, identity, row_of)
