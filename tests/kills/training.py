"""`odtc train`, killed and taken up again, is the run that was never killed.

Each checkpoint that a kill leaves is one of the uninterrupted run, byte for byte: it is whole, is
of one step alone, and nothing was lost or taken twice on the way to it.
"""

import hashlib
import random
import signal
import time
from pathlib import Path
from typing import ClassVar

import odtc
from odtc.cli.interrupts import ENDS
from odtc.cli.training.resuming import run_identity
from odtc.runtime_rpc.data.readers import read_data
from odtc.schedules import Constant
from tests.cli.training.digits import Digits, trained
from tests.kills.killed import Killed, Place

SEED, LR = 5, 0.01
# Seconds that a run takes, before that was measured.
_GUESS = 1.0
# What the command imports when it runs.
IMPORTS = (
    "odtc.artifact",
    "odtc.runtime_rpc.data.readers",
    "odtc.runtime_rpc.connect",
    "odtc.runtime_rpc.trainer",
)


class Train(Killed):
    """A run on this machine.

    Args:
        digits: model and data.
        folder: to work in.
        options: more of the command.
    """

    name = "train"
    output = "c"
    # Steps of the run, and between two checkpoints.
    steps: ClassVar[int] = 120
    every: ClassVar[int] = 1
    # Of the command; a step on a GPU has none.
    threads: ClassVar[tuple[str, ...]] = ("--threads", "1")

    def __init__(self, digits: Digits, folder: Path, *options: str) -> None:
        super().__init__(Place(folder, "odtc.cli.main", *IMPORTS))
        self._digits, self._options = digits, options
        self._steps = uninterrupted(digits, folder / "reference", self.steps)
        self._whole = _GUESS

    @property
    def step(self) -> int:
        """That of the checkpoint; 0 where there is none."""
        if not self.path.exists():
            return 0
        return self._steps[hashlib.sha256(self.path.read_bytes()).hexdigest()]

    def start(self) -> int:
        """Starts the run, or takes it up."""
        options = ("--lr", str(LR), "--seed", str(SEED), "--steps", str(self.steps))
        keep = ("--checkpoint", self.output, "--checkpoint-every", str(self.every))
        again = ("--resume",) if self.path.exists() else ()
        argv = trained(self._digits, *options, *self.threads, *keep, *again, *self._options)
        return self.place.server.start(argv)

    def finish(self) -> None:
        """Lets the run come to its end, and learns how long it takes, if it was whole."""
        began, before = time.monotonic(), self.step
        assert self.until_end(self.start()) == 0, self.said
        self._whole = self._whole if before else time.monotonic() - began
        assert self.step == self.steps
        self.assert_nothing_left()

    def drawn(self, rng: random.Random) -> float:
        """A random moment of the rest of the run; after the end of one, another one begins."""
        if self.step == self.steps:
            self.path.unlink()
            self.counts["runs"] += 1
        # The rest of a run takes less than all of it.
        return rng.uniform(0, self._whole * (0.2 + 0.6 * (1 - self.step / self.steps)))

    def kill(self, number: signal.Signals, rng: random.Random) -> None:
        """Starts the run, ends it at a random moment, and looks at what is there then."""
        seconds, before = self.drawn(rng), self.step
        self.start()
        self.sleep(seconds)
        self.place.server.kill(number)
        code = self.ended(number)
        after = self.step
        assert after >= before
        self.counts["in the middle"] += before < after < self.steps
        assert code or after == self.steps
        if number in ENDS and code == ENDS[number][0] and "after step" in self.said:
            assert f"after step {after} of {self.steps}" in self.said
            self.counts["wrote the signal's checkpoint"] += 1


def uninterrupted(digits: Digits, path: Path, steps: int) -> dict[str, int]:
    """The hash of each checkpoint of a run by the Python interface, to its step."""
    artifact = odtc.load(digits.artifact)
    samples, schedule = read_data(digits.train, artifact.manifest), Constant(LR)
    trainer = artifact.trainer()
    trainer.run = run_identity(samples, SEED, schedule)
    found = {}

    class Each(odtc.Callback):
        def on_train_begin(self, run) -> None:
            self.on_safe_point(run)

        def on_safe_point(self, run) -> None:
            run.save(path)
            found[hashlib.sha256(path.read_bytes()).hexdigest()] = run.step

        def on_train_end(self, run) -> None:
            self.on_safe_point(run)

    trainer.fit(samples, lr=LR, steps=steps, seed=SEED, callbacks=[Each()])
    # The last one is written again, with the history's last row.
    assert len(found) == steps + 2
    return found
