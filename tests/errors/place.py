"""Where an error is caused, and what causes one."""

import os
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.cli.training.digits import Digits
from tests.mounts import mounted

Argv = list[str]


@dataclass(frozen=True)
class Place:
    """Where an error is caused.

    Attributes:
        digits: a model, its artifact and data, not to be changed.
        inputs: a folder for what the cause prepares.
        outputs: the current folder; no file may be left in it.
        tracker: host and port of a tracker that knows no device.
        stack: what is to be undone at the end.
    """

    digits: Digits
    inputs: Path
    outputs: Path
    tracker: str
    stack: ExitStack

    def write(self, name: str, data: bytes) -> Path:
        """Writes an input file."""
        path = self.inputs / name
        path.write_bytes(data)
        return path

    def names(self) -> list[tuple[str, str]]:
        """Returns texts that change from run to run, with their placeholders in the table."""
        return [
            (str(self.inputs), "INPUTS"),
            (str(self.outputs), "OUTPUTS"),
            (str(self.digits.model.parent), "DIGITS"),
            (self.tracker, "TRACKER"),
        ]

    def files_left(self) -> list[Path]:
        """Returns files that should not be left at the end.

        By `os.walk`, which minds no folder that a thread removes meanwhile.
        """
        folders = (self.outputs, Path(tempfile.gettempdir()))
        found = [
            Path(at, name) for top in folders for at, _, names in os.walk(top) for name in names
        ]
        return [path for path in found if path.is_file()]

    def small_disk(self, kilobytes: int) -> Path:
        """A folder with that much room; where none can be made, CI fails and others skip."""
        disk = self.outputs / "disk"
        disk.mkdir()
        self.stack.enter_context(mounted(disk, f"size={kilobytes}k"))
        return disk


# Prepares files and gives the command line that fails; or calls the library, which raises.
Cause = Callable[[Place], Argv | None]
