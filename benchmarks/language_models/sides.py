"""Sides of the comparison: how the process of each is started, and what it is asked for."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

# Peers, on tables.
TORCH, CHECKPOINTED = "PyTorch", "PyTorch, checkpointed"
_ROOT = Path(__file__).parents[2]
_WORKER = (sys.executable, "-m", "benchmarks.language_models.worker")
# Libraries that read their number of threads from the environment.
_THREADS = ("OMP_NUM_THREADS", "TVM_NUM_THREADS")
# How a traceback begins the line of its error.
_ERROR = re.compile(r"[\w.]*Error: ")


class SideError(RuntimeError):
    """A process failed; the message says why."""


@dataclass(frozen=True)
class Turn:
    """A process that took steps.

    Attributes:
        seconds: of each step, the first among them, which warms up.
        losses: of each, before its update.
        peak: the most resident bytes from before the first step on.
        files: of the pages at the end, those of mapped files.
        imported: resident bytes behind the imports; 0 of a program in C.
    """

    seconds: list[float]
    losses: list[float]
    peak: int
    files: int
    imported: int

    @property
    def net(self) -> int:
        """The most without imports."""
        return self.peak - self.imported


@dataclass(frozen=True)
class Side:
    """Something that takes steps.

    Attributes:
        name: on tables.
        command: starts it.
        imports: whether it first prints the bytes that imports took.
    """

    name: str
    command: Sequence[str]
    imports: bool

    @classmethod
    def worker(cls, name: str, *words: str) -> Self:
        """A side in Python."""
        return cls(name, [*_WORKER, *words], imports=True)

    def take(self, steps: int, threads: int) -> Turn:
        """Starts the process, takes steps, and ends it.

        Raises:
            SideError: the process ended before that.
        """
        process = subprocess.Popen(
            self.command,
            cwd=_ROOT,
            env=_environment(threads),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            imported = int(process.stdout.readline()) if self.imports else 0
            process.stdin.write("." * steps)
            process.stdin.flush()
            said = [process.stdout.readline().split() for _ in range(steps)]
            seconds = [int(first) / 1e9 for first, _ in said]
            losses = [float.fromhex(second) for _, second in said]
            status = _status(process.pid)
        except (ValueError, OSError) as error:
            process.kill()
            said = process.communicate()[1]
            raise SideError(_reason(said, process.returncode)) from error
        process.communicate()
        return Turn(seconds, losses, status["VmHWM"], status["RssFile"], imported)


def run_task(threads: int, *words: str) -> None:
    """Runs a task of the worker to its end.

    Raises:
        SideError: it failed, with the last line that it said.
    """
    done = subprocess.run(
        [*_WORKER, *words],
        cwd=_ROOT,
        env=_environment(threads),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SideError(_reason(done.stderr, done.returncode))


def _reason(said: str, code: int) -> str:
    """The line of a traceback that names the error; else the last one, or how it ended."""
    lines = said.strip().splitlines() or [f"it ended with {code}"]
    named = (line for line in reversed(lines) if _ERROR.match(line))
    return next(named, lines[-1]).removeprefix("odtc.core.errors.")[:200]


def _environment(threads: int) -> Mapping[str, str]:
    return os.environ | dict.fromkeys(_THREADS, str(threads)) | {"TRANSFORMERS_VERBOSITY": "error"}


def _status(pid: int) -> Mapping[str, int]:
    """Bytes of each field of a process's status that is in kB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = (line.split() for line in lines if line.endswith(" kB"))
    return {name.rstrip(":"): int(kilobytes) << 10 for name, kilobytes, _ in fields}
