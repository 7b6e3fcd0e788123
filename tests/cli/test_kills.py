"""`odtc train`, killed at random moments and taken up again, is the run that was never killed.

Each checkpoint that a kill leaves is one of the uninterrupted run, byte for byte: it is whole, is
of one step alone, and nothing was lost or taken twice on the way to it.
"""

import collections
import hashlib
import os
import random
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import odtc
from odtc.cli.interrupts import ENDS
from odtc.cli.resuming import run_identity
from odtc.cli.samples import batches, read_samples
from odtc.core import left_behind
from odtc.core.files import check_writable
from odtc.core.left_behind import temporary_folder
from odtc.schedules import Constant
from tests.cli.digits import Digits, trained
from tests.cli.fork_server import ForkServer

STEPS, SEED, LR = 120, 5, 0.01
KINDS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGHUP)


@dataclass
class Chain:
    """A run that is killed again and again.

    Attributes:
        digits: model and data.
        server: that starts it.
        folder: that it works in.
        temporary: its folder for temporary files.
        steps: hash of the uninterrupted run's checkpoint to the step.
        counts: of what happened.
    """

    digits: Digits
    server: ForkServer
    folder: Path
    temporary: Path
    steps: dict[str, int]
    counts: collections.Counter[str] = field(default_factory=collections.Counter)

    @property
    def checkpoint(self) -> Path:
        return self.folder / "c"

    @property
    def step(self) -> int:
        """That of the checkpoint; 0 where there is none."""
        if not self.checkpoint.exists():
            return 0
        return self.steps[hashlib.sha256(self.checkpoint.read_bytes()).hexdigest()]

    def start(self) -> int:
        options = ("--lr", str(LR), "--seed", str(SEED), "--steps", str(STEPS), "--threads", "1")
        keep = ("--checkpoint", "c", "--checkpoint-every", "1")
        again = ("--resume",) if self.checkpoint.exists() else ()
        return self.server.start(trained(self.digits, *options, *keep, *again))

    def finish(self) -> None:
        """Lets the run come to its end."""
        self.start()
        assert self.server.wait() == 0, self.server.log.read_text()
        assert self.step == STEPS
        self.assert_nothing_left()

    def kill(self, number: signal.Signals, seconds: float) -> None:
        """Starts the run, ends it so many seconds later, and looks at what is there then."""
        before, pid = self.step, self.start()
        time.sleep(seconds)
        os.kill(pid, number)
        code = self.server.wait()
        after = self.step
        assert after >= before
        said = self.server.log.read_text()
        name = number.name
        self.counts[name] += 1
        self.counts[f"{name}, in the middle of the steps"] += before < after < STEPS
        if code == 0:
            # It was at its end before.
            assert after == STEPS
            self.counts["came too late"] += 1
        elif number in ENDS and code != -number:
            assert code == ENDS[number][0], said
            if "after step" in said:
                assert f"after step {after} of {STEPS}" in said
                self.counts["wrote the checkpoint of the signal"] += 1
            self.assert_nothing_left()
        else:
            # By SIGKILL, or before anything of odtc had the signal.
            assert code == -number, said
            self.counts["left something behind"] += bool(self.left())
            self.next_start()
            self.assert_nothing_left()

    def next_start(self) -> None:
        """What every command does that has an output or unpacks an artifact."""
        left_behind._remove_folders.cache_clear()
        left_behind._remove_files.cache_clear()
        check_writable(self.checkpoint)
        with temporary_folder():
            pass

    def left(self) -> list[Path]:
        inside = [path for path in self.folder.iterdir() if path != self.checkpoint]
        return [*inside, *self.temporary.iterdir()]

    def assert_nothing_left(self) -> None:
        assert not self.left()


def uninterrupted(digits: Digits, path: Path) -> dict[str, int]:
    """The hash of each checkpoint of a run by the Python interface, to its step."""
    artifact = odtc.load(digits.artifact)
    samples, schedule = read_samples(digits.train, artifact.manifest), Constant(LR)
    trainer = artifact.trainer(threads=1)
    trainer.run = run_identity(samples, SEED, schedule)
    found = {}
    for x, y in batches(samples, artifact.manifest.batch, SEED, 0):
        trainer.save_checkpoint(path)
        found[hashlib.sha256(path.read_bytes()).hexdigest()] = trainer.steps
        if trainer.steps == STEPS:
            break
        trainer.step(x, y, lr=schedule(trainer.updates))
    assert len(found) == STEPS + 1
    return found


@pytest.fixture
def chain(digits: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Chain]:
    folder, temporary = tmp_path / "run", tmp_path / "tmp"
    steps = uninterrupted(digits, tmp_path / "reference")
    folder.mkdir()
    temporary.mkdir()
    monkeypatch.setattr(left_behind.tempfile, "tempdir", str(temporary))
    server = ForkServer(folder, temporary)
    yield Chain(digits, server, folder, temporary, steps)
    server.close()


@pytest.mark.parametrize("kills", [12, pytest.param(200, marks=pytest.mark.slow)])
def test_a_run_that_is_killed_again_and_again_is_the_same_run(chain: Chain, kills: int):
    began = time.monotonic()
    chain.finish()
    longest, rng = time.monotonic() - began, random.Random(0)
    for _ in range(kills):
        if chain.step == STEPS:
            chain.checkpoint.unlink()
            chain.counts["runs"] += 1
        # The rest of a run takes less than all of it.
        seconds = longest * (0.2 + 0.6 * (1 - chain.step / STEPS))
        chain.kill(rng.choice(KINDS), rng.uniform(0, seconds))
    chain.finish()
    print(f"{kills} kills of runs of {longest:.2f} s:", dict(chain.counts))
