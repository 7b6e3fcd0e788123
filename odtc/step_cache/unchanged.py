"""Whether files are as they were before a compile read them.

A hash is of one moment, and a compile reads for a while. What the system says of a file before and
after it shows that nobody wrote in between, however its clock was set meanwhile.
"""

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from odtc.core.disk.package_files import COARSE_NS


@dataclass(frozen=True)
class Seen:
    """Files that were looked at.

    Attributes:
        since_ns: when that began, in nanoseconds of the clock.
        files: what the system said of each; nothing of one that was not there.
    """

    since_ns: int
    files: Mapping[Path, tuple[int, ...]]

    @property
    def are_unchanged(self) -> bool:
        """Whether no file has changed since, or so shortly before that its times do not show it."""
        latest = self.since_ns - COARSE_NS
        return all(
            _said_of(path) == said and said[-1:] <= (latest,) for path, said in self.files.items()
        )

    def and_at(self, paths: Iterable[Path]) -> "Seen":
        """With more files, that were not read before."""
        return Seen(self.since_ns, {**look_at(paths).files, **self.files})


def look_at(paths: Iterable[Path]) -> Seen:
    """Looks at files that are about to be read."""
    since = time.time_ns()
    return Seen(since, {path: _said_of(path) for path in paths})


def _said_of(path: Path) -> tuple[int, ...]:
    """Values that change when a file is written; the time of its last change is the last."""
    try:
        said = os.stat(path)
    except (OSError, ValueError):
        return ()
    return said.st_dev, said.st_ino, said.st_size, said.st_mtime_ns, said.st_ctime_ns
