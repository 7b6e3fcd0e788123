"""Resident memory of a process, as Linux counts it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from odtc.core.process.trim import trim

_SELF = Path("/proc/self")
# Resets the peak of the resident set to its current size.
_RESET_PEAK = "5"
_FILES = "RssFile"


def resident(field: str = "VmRSS") -> int:
    """Bytes of a field of this process's status, such as the resident set or `VmHWM`, its peak."""
    lines = (_SELF / "status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))


def reset_peak() -> None:
    """Resets `VmHWM`, so that it is the peak from here on."""
    (_SELF / "clear_refs").write_text(_RESET_PEAK)


@dataclass(frozen=True)
class Sample:
    """A fresh process that took some steps.

    Attributes:
        imported: resident bytes after the imports, before anything was made.
        ready: before the first step.
        peak: the most during the steps.
        losses: of the steps, before their updates.
        files: growth of pages of mapped files, such as libraries, since the imports.
    """

    imported: int
    ready: int
    peak: int
    losses: list[float]
    files: int

    @property
    def net(self) -> int:
        """The peak without the imports."""
        return self.peak - self.imported


def measured(make: Callable[[], Callable[[], float]], steps: int) -> Sample:
    """Makes an engine and takes steps.

    Args:
        make: loads the model; returns a function that takes a step and returns its loss. All that
            it imports is imported already.
        steps: how many.
    """
    trim()
    imported, files = resident(), resident(_FILES)
    step = make()
    ready = resident()
    reset_peak()
    losses = [float(step()) for _ in range(steps)]
    return Sample(imported, ready, resident("VmHWM"), losses, resident(_FILES) - files)
