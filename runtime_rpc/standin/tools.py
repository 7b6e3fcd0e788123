"""The programs that the stand-in needs from the system, and how they fail."""

import shutil
import subprocess
from collections.abc import Mapping, Sequence

from odtc.core.errors import BuildError

_PACKAGES = {
    "aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu",
    "apt-get": "apt",
    "busybox": "busybox-static",
    "dpkg-deb": "dpkg",
    "qemu-aarch64-static": "qemu-user-static",
    "unshare": "util-linux",
}
_LIMIT_SECONDS = 600
_TAIL_LINES = 15


def find_tool(name: str) -> str:
    """The path of a program of the table above.

    Raises:
        BuildError: it is not installed.
    """
    path = shutil.which(name)
    if path is None:
        raise BuildError(
            f"the emulated phone needs {name}, which is not installed",
            where="PATH",
            hint=f"run `apt-get install {_PACKAGES[name]}`",
        )
    return path


def find_tools(*names: str) -> None:
    """Checks for missing programs before the long work, not after it.

    Raises:
        BuildError: one of these programs is not installed.
    """
    for name in names:
        find_tool(name)


def run_tool(command: Sequence[str], *, hint: str, env: Mapping[str, str] | None = None) -> str:
    """Runs a command to its end and returns its standard output.

    Raises:
        BuildError: it failed, or took longer than ten minutes; with the last lines it wrote.
    """
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LIMIT_SECONDS,
            env=env,
            check=True,
        )
    except subprocess.TimeoutExpired as error:
        raise BuildError(
            f"it did not end within {_LIMIT_SECONDS} s", where=" ".join(command), hint=hint
        ) from error
    except subprocess.CalledProcessError as error:
        raise BuildError(
            f"it failed with status {error.returncode}:\n{last_lines(error.stdout + error.stderr)}",
            where=" ".join(command),
            hint=hint,
        ) from error
    return done.stdout


def last_lines(text: str) -> str:
    """The end of a program's output, indented."""
    return "\n".join(f"    {line}" for line in text.strip().splitlines()[-_TAIL_LINES:])
