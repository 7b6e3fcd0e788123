"""Small disks of memory, for tests of full ones and of those that run nothing."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.needs import lacks


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[Path]:
    """Mounts one in a folder; where that is not possible, CI fails and others skip.

    Args:
        folder: that exists.
        options: of `mount`, such as `size=8k`.
    """
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        lacks(f"cannot mount a small disk here: {error}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)
