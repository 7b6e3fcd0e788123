"""A program that trains, killed in the middle of it as often as it is said."""

import re
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

# What the examples print.
_TAKEN = re.compile(r"step (\d+) of \d+  loss (\S+)")
_ENDLESS = 10**6
_GOES_ON = re.compile(r"goes on after step (\d+)")


@dataclass(frozen=True)
class Run:
    """What a program printed.

    Attributes:
        begin: the step of the checkpoint that it went on from; 0 without one.
        losses: of each step, by its number.
        last: its last line.
    """

    begin: int
    losses: dict[int, str]
    last: str


def run_of(text: str) -> Run:
    """Reads what a program printed, as far as it got."""
    goes_on = _GOES_ON.search(text)
    # A line that was cut is none.
    lines = text[: text.rfind("\n") + 1].splitlines()
    losses = {int(found[1]): found[2] for line in lines if (found := _TAKEN.fullmatch(line))}
    return Run(int(goes_on[1]) if goes_on else 0, losses, lines[-1] if lines else "")


def killed_run(command: Sequence[str], steps: int, delay: float) -> Run:
    """Kills a program that was seen to take some steps more, after a delay in seconds."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    text, seen = "", 0
    while seen < steps and (line := process.stdout.readline()):
        text += line
        seen += line.startswith("step ")
    time.sleep(delay)
    process.kill()
    text += process.stdout.read()
    assert process.wait() == -signal.SIGKILL, text
    return run_of(text)


def whole_run(command: Sequence[str]) -> Run:
    """Lets a program come to its end."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return run_of(done.stdout)


def killed_runs(command: Callable[[int], Sequence[str]], kills: int) -> list[Run]:
    """Kills a program at random moments, starts it again each time, and lets it come to its end.

    Args:
        command: for a number of steps in all.
        kills: how often it is killed.

    Returns:
        Each of its runs; the last one ended by itself, some steps later.
    """
    rng = np.random.default_rng(kills)
    delays = rng.uniform(0, 0.004, kills)
    # However long this process waits for its turn, the other one does not come to its end.
    runs = [killed_run(command(_ENDLESS), int(rng.integers(1, 8)), delay) for delay in delays]
    reached = max((step for run in runs for step in run.losses), default=0)
    return [*runs, whole_run(command(reached + 10))]


def assert_one_step_is_lost(runs: Sequence[Run], whole: Run) -> None:
    """Of each run that was killed only the step that ran is lost, and all have one run's losses."""
    for before, after in pairwise(runs):
        assert max(before.losses, default=before.begin) <= after.begin
        # Beside those told of, one at most was taken and written.
        assert after.begin <= max(before.losses, default=before.begin) + 1
    for run in runs:
        assert run.losses.items() <= whole.losses.items()
