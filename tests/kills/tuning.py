"""`odtc tune`, killed, keeps what it has measured, and goes on from there the next time."""

import random
import re
import signal
from pathlib import Path

from odtc.autoschedule.tuning.database import read
from odtc.autoschedule.tuning.record import Record
from tests.cli.training.digits import BATCH, Digits
from tests.kills.fork_server import has_ended
from tests.kills.killed import Killed, Place
from tests.kills.moments import Moments, moments_of

_TRIALS = 12
# One thread measures, so that one process builds for it on a machine of two cores.
_TARGET = "host-cpu{threads=1}"
# Of the tasks, so that trials are of two.
_PART = "1/6"
# In which something is measured, on a machine that is busy.
_SECONDS = 300.0
# What the command imports when it runs.
IMPORTS = ("odtc.tuner.tuning", "odtc.artifact")


class Tune(Killed):
    """A short session for the digits model.

    Args:
        digits: the model.
        folder: to work in.
    """

    name = "tune"
    output = "records.jsonl"

    def __init__(self, digits: Digits, folder: Path) -> None:
        super().__init__(Place(folder, "odtc.cli.main", *IMPORTS))
        step = ("--batch", str(BATCH), "--target", _TARGET, "--part", _PART)
        limits = ("--database", self.output, "--trials", str(_TRIALS), "--rounds", "3")
        self._argv = ["tune", str(digits.model), *step, *limits]
        self._moments: Moments | None = None
        self._is_over = False

    @property
    def records(self) -> tuple[Record, ...]:
        """Returns the records: each choice once, and no damaged line."""
        found = read(self.path)
        keys = [record.key for record in found.records]
        assert len(keys) == len(set(keys))
        assert not found.damaged
        return found.records

    def finish(self) -> None:
        """Lets the session come to its end, and learns how long stages take, if it was whole."""
        before = self.records
        found = moments_of(self.place.server, self._argv)
        self._moments = self._moments or (None if before else found)
        self._is_over = True
        self._assert_goes_on(before)
        assert re.search("; all trials are done|; what is left to win is below", self.said)
        self.assert_nothing_left()

    def kill(self, number: signal.Signals, rng: random.Random) -> None:
        """Goes on with the session, ends it, and looks what there is of it."""
        before = self.records
        if self._is_over:
            self.path.unlink()
            self._is_over = False
            self.counts["runs"] += 1
            before = ()
        pid = self.place.server.start(self._argv)
        if self._moments:
            self._moments.wait(pid, rng)
        else:
            self.waited("", lambda: has_ended(pid) or len(self.records) > len(before), _SECONDS)
        self.place.server.kill(number)
        code = self.ended(number)
        self._is_over = code == 0
        self._assert_goes_on(before)
        self.counts["with new records"] += bool(code) and len(self.records) > len(before)

    def _assert_goes_on(self, before: tuple[Record, ...]) -> None:
        assert self.records[: len(before)] == before
