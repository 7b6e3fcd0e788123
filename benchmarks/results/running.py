"""One command as a process of its own, with what other programs did meanwhile."""

import contextlib
import os
import resource
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

# The clock, seconds of busy cores, and of these what this process and its children used.
Times = tuple[float, float, float]
# Seconds in which a command that is told to end may clean up.
_GRACE = 20


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Attributes:
        status: of its exit; negative where a signal ended it, None where it took too long.
        seconds: that it took.
        busy: the share, from 0 to 1, of the cores that other programs kept busy meanwhile.
        went_on: whether it went on with what was there, so that it took less than all of it takes.
    """

    status: int | None
    seconds: float
    busy: float
    went_on: bool = False


def run_command(words: Sequence[str], root: Path, log: Path, limit: float) -> Ended:
    """Runs a command to its end.

    It gets a process group, which is ended as by Ctrl-C where this process is, or behind the limit.

    Args:
        words: of the command.
        root: the folder that it runs in.
        log: a file that gets what it says, behind what is there.
        limit: in seconds.

    Raises:
        KeyboardInterrupt: this process was told to end; the command has ended, too.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    began, others = time.monotonic(), _Others()
    with log.open("ab") as said:
        process = subprocess.Popen(
            words,
            cwd=root,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
        status = None
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = process.wait(limit)
        finally:
            # What it started and left behind would keep cores busy while the next one is timed.
            _end(process)
    return Ended(status, time.monotonic() - began, others.share())


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a process with its group: as Ctrl-C does, behind which it cleans up, then at once."""
    try:
        if process.poll() is None:
            _signal(process, signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE)
    finally:
        # Also where this process is told to end once more.
        _signal(process, signal.SIGKILL)
        process.wait()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def share_of(began: Times, now: Times, cores: int) -> float:
    """The share of the cores that others kept busy between two moments; own time may be ahead."""
    seconds, busy, own = (b - a for a, b in zip(began, now, strict=True))
    return min(1.0, max(0.0, (busy - own) / (seconds * cores)))


class _Others:
    """Counts the time of the cores that this process may use, less that of its own children."""

    def __init__(self) -> None:
        self._cores = sorted(os.sched_getaffinity(0))
        self._began = self._now()

    def share(self) -> float:
        """The share of the cores that others kept busy since this was made."""
        return share_of(self._began, self._now(), len(self._cores))

    def _now(self) -> Times:
        every = psutil.cpu_times(percpu=True)
        busy = sum(
            each.user + each.nice + each.system + each.irq + each.softirq
            for each in (every[core] for core in self._cores if core < len(every))
        )
        used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        own = sum(each.ru_utime + each.ru_stime for each in used)
        return time.monotonic(), busy, own
