"""Random moments of a command: half of them of all its time, half of each of its stages alike.

An output is replaced in a thousandth of the time that a command runs for. Of moments that are drawn
from all of that time one in a thousand would meet this.
"""

import itertools
import random
import time
from dataclasses import dataclass
from pathlib import Path

from tests.kills.fork_server import ForkServer, has_ended

_POLL_SECONDS = 0.0005
_OF_ALL = 0.5


@dataclass(frozen=True)
class Moments:
    """Those of one command.

    Attributes:
        log: that it prints to: a line where a stage begins.
        lengths: of its stages, in seconds; of the first one before it has printed anything.
    """

    log: Path
    lengths: list[float]

    def wait(self, pid: int, rng: random.Random) -> None:
        """Waits for a moment of a command that has just begun, or for its end."""
        weights = self.lengths if rng.random() < _OF_ALL else None
        (stage,) = rng.choices(range(len(self.lengths)), weights)
        while _lines(self.log) < stage and not has_ended(pid):
            time.sleep(_POLL_SECONDS)
        time.sleep(rng.uniform(0, self.lengths[stage]))


def moments_of(server: ForkServer, argv: list[str]) -> Moments:
    """Runs a command, which must come to its end, and looks when its stages begin."""
    pid, times = server.start(argv), [time.monotonic()]
    while not has_ended(pid):
        now = time.monotonic()
        times += [now] * (_lines(server.log) + 1 - len(times))
        time.sleep(_POLL_SECONDS)
    times.append(time.monotonic())
    assert server.wait() == 0, server.log.read_text()
    lengths = [end - begin for begin, end in itertools.pairwise(times)]
    return Moments(server.log, lengths)


def _lines(log: Path) -> int:
    return log.read_bytes().count(b"\n")
