"""Figures of the runtime in C and of the trainers of Python, for people and for the page."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich import box
from rich.table import Table

# The runtime in C; odtc's trainer, which runs it; a trainer on TVM's virtual machine; and
# onnxruntime-training's, of its wheel for Python.
SIDES = ("c", "python", "tvm", "onnxruntime")
HEADS = ("C", "Python", "Python on TVM", "onnxruntime-training")


@dataclass(frozen=True)
class Measured:
    """All sides with a model and a number of threads, in the order of `SIDES`.

    Attributes:
        model: its name.
        batch: samples in a step.
        threads: worker threads.
        is_same: whether all losses of odtc were, and onnxruntime's first one nearly.
        step_ms: of each timed step.
        ready_ms: from the start of the process to the start of its first step.
        start_ms: from the start of the process to the end of its first step.
        resident_mb: the most that was.
    """

    model: str
    batch: int
    threads: int
    is_same: bool
    step_ms: Sequence[Sequence[float]]
    ready_ms: Sequence[float]
    start_ms: Sequence[float]
    resident_mb: Sequence[float]

    def figures(self) -> dict[str, Any]:
        """The row of the page."""
        kinds = ("step_ms", "ready_ms", "start_ms", "resident_mb")
        pairs = {kind: dict(zip(SIDES, getattr(self, kind), strict=True)) for kind in kinds}
        return {"model": self.model, "batch": self.batch, "threads": self.threads, **pairs}


@dataclass
class Found:
    """All that was measured.

    Attributes:
        runtime_bytes: of the runtime without symbols, by how it is compiled.
        archive_bytes: of the archives of an Android app, by their names.
        peer_bytes: of what onnxruntime-training's wheel brings, by part.
        program_bytes: of `program.bin`, by model.
        tensor_bytes: of arena and arguments, by model.
        rows: of models and threads.
    """

    runtime_bytes: Mapping[str, int]
    archive_bytes: Mapping[str, int]
    peer_bytes: Mapping[str, int]
    program_bytes: dict[str, int] = field(default_factory=dict)
    tensor_bytes: dict[str, int] = field(default_factory=dict)
    rows: list[Measured] = field(default_factory=list)

    @property
    def is_same(self) -> bool:
        """Whether all losses were, in all rows."""
        return all(row.is_same for row in self.rows)

    def figures(self) -> dict[str, Any]:
        """The contents of the file that the page is written from."""
        return {
            "rows": [row.figures() for row in self.rows],
            "bytes": {
                "runtime": self.runtime_bytes,
                "program.bin": self.program_bytes,
                "archives": self.archive_bytes,
                "onnxruntime-training": self.peer_bytes,
            },
            "tensors_mb": {name: count / 1e6 for name, count in self.tensor_bytes.items()},
        }


def table_of(found: Found) -> Table:
    """A row for each thing that was measured."""
    table = Table("", "", *HEADS, box=box.SIMPLE)
    for how, count in found.runtime_bytes.items():
        table.add_row(f"runtime, {how}", "bytes", f"{count:,}")
    for name, count in found.archive_bytes.items():
        table.add_row(f"for Android, {name}", "bytes", f"{count:,}")
    for part, count in found.peer_bytes.items():
        table.add_row(f"onnxruntime-training's wheel, {part}", "bytes", "", "", "", f"{count:,}")
    for name, count in found.tensor_bytes.items():
        table.add_row(f"{name}, arena and arguments", "MB", f"{count / 1e6:.2f}")
        table.add_row(f"{name}, program.bin", "bytes", f"{found.program_bytes[name]:,}")
    for row in found.rows:
        for cells in _cells(row, found.tensor_bytes[row.model] / 1e6):
            table.add_row(*cells)
    return table


def _cells(row: Measured, tensors_mb: float) -> Iterator[tuple[str, ...]]:
    what = f"{row.model}, {row.threads} thread{'s' * (row.threads > 1)}"
    steps = [statistics.median(each) for each in row.step_ms]
    for name, unit, sides in (
        ("start to the first step", "ms", row.ready_ms),
        ("start to its end", "ms", row.start_ms),
        ("resident", "MB", row.resident_mb),
        ("resident beyond odtc's tensors", "MB", [each - tensors_mb for each in row.resident_mb]),
        ("step", "ms", steps),
        ("step, times that on TVM", "", [each / steps[SIDES.index("tvm")] for each in steps]),
    ):
        yield f"{what}: {name}", unit, *(f"{each:.3f}" for each in sides)
    yield f"{what}: losses", "", "equal" if row.is_same else "DIFFER"
