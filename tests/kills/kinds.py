"""The kinds of commands that are killed, and how often each is."""

import random
import signal
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tests.cli.training.digits import Digits
from tests.kills.at_steps import AtStep, AtStepOfOpenCL, AtStepOfVulkan
from tests.kills.compiling import Compile
from tests.kills.killed import Killed
from tests.kills.serving import OfServer, OfSession, OnDevice
from tests.kills.training import Train
from tests.kills.tuning import Tune

# In turn; nothing else is as sudden as the first one.
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL, signal.SIGHUP)
KINDS: dict[str, Callable[[Digits, Path], Killed]] = {
    kind.name: kind
    for kind in (
        *(Train, Compile, Tune, OnDevice, OfServer, OfSession),
        *(AtStep, AtStepOfOpenCL, AtStepOfVulkan),
    )
}


@dataclass(frozen=True)
class Row:
    """The results of one kind of kill.

    Attributes:
        kind: its name.
        signals: how often each was sent.
        counts: of what happened.
        longest: seconds of what was waited for.
        seconds: of all.
    """

    kind: str
    signals: dict[str, int]
    counts: dict[str, int]
    longest: dict[str, float]
    seconds: float

    def __str__(self) -> str:
        signals = "  ".join(f"{name} {count}" for name, count in self.signals.items())
        counts = "; ".join(f"{name} {count}" for name, count in self.counts.items())
        longest = "; ".join(f"{name} after {took:.2f} s" for name, took in self.longest.items())
        return (
            f"{self.kind:12}{signals}  in {self.seconds:.0f} s\n        {counts}\n        {longest}"
        )


def killed(
    kind: str, kills: int, digits: Digits, folder: Path, seed: int, *, learn: bool = True
) -> Row:
    """Kills a command of a kind so many times, and lets it come to its end.

    Args:
        kind: of `KINDS`.
        kills: how many.
        digits: model and data.
        folder: to work in; it exists.
        seed: of the moments.
        learn: whether it comes to its end before, too, so that moments are those of its stages.

    Raises:
        AssertionError: something was lost, damaged or left.
    """
    began, rng = time.monotonic(), random.Random(f"{seed} {kind}")
    with closing(KINDS[kind](digits, folder)) as one:
        if learn:
            one.finish()
        signals = [SIGNALS[number % len(SIGNALS)] for number in range(kills)]
        for number in signals:
            one.kill(number, rng)
        one.finish()
        counts, longest = dict(one.counts), one.longest
    sent = {each.name: signals.count(each) for each in dict.fromkeys(SIGNALS)}
    return Row(kind, sent, counts, longest, time.monotonic() - began)
