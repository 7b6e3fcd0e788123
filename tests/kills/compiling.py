"""`odtc compile`, killed, leaves the artifact that was there, or none, or a whole new one."""

import random
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path

import odtc
from odtc.core.artifact.bundle import LIBRARY, MEMORY
from odtc.core.disk.files import atomic_write
from tests.cli.training.digits import BATCH, Digits
from tests.kills.killed import Killed, Place
from tests.kills.moments import Moments, moments_of

# What the command imports when it runs.
IMPORTS = ("odtc.driver.building", "odtc.artifact")
# Seconds that it takes, before that was measured.
_GUESS = 1.0


class Compile(Killed):
    """The digits model, compiled over an older artifact, or where there is none.

    Args:
        digits: the model, and an artifact of it.
        folder: to work in.
    """

    name = "compile"
    output = "out.odtc"

    def __init__(self, digits: Digits, folder: Path) -> None:
        self._cache = folder / "cache"
        super().__init__(Place(folder, "odtc.cli.main", *IMPORTS, cache=self._cache))
        self._old = digits.artifact
        model = str(digits.model)
        self._argv = ["compile", model, "--batch", str(BATCH), "-o", self.output]
        self._moments = Moments(self.place.server.log, [_GUESS])
        self._members: Mapping[str, str] = {}

    def finish(self) -> None:
        """Compiles, and learns how long stages take."""
        self._moments = moments_of(self.place.server, self._argv)
        assert self._is_new()
        self.assert_nothing_left()

    def kill(self, number: signal.Signals, rng: random.Random) -> None:
        """Compiles, and looks what lies in the artifact's place."""
        # A step that was kept is not compiled, and kernels are.
        shutil.rmtree(self._cache / "odtc" / "steps", ignore_errors=True)
        is_over = rng.random() < 0.5
        self.path.unlink(missing_ok=True)
        if is_over:
            with atomic_write(self.path) as temporary:
                shutil.copyfile(self._old, temporary)
        pid = self.place.server.start(self._argv)
        self._moments.wait(pid, rng)
        self.place.server.kill(number)
        code = self.ended(number)
        is_new = self._is_new()
        assert code or is_new
        self.counts["a new artifact"] += is_new
        self.counts["the old artifact"] += is_over and not is_new

    def _is_new(self) -> bool:
        """Whether the artifact is the new one, whole; it must be, or the old one, or not there."""
        if not self.path.exists():
            return False
        if self.path.read_bytes() == self._old.read_bytes():
            return False
        found = members(self.path)
        self._members = self._members or found
        differing = {name for name in found if found[name] != self._members[name]}
        assert differing <= {LIBRARY, MEMORY}, f"{found} in place of {self._members}"
        self.counts["another library"] += bool(differing)
        return True


def members(path: Path) -> Mapping[str, str]:
    """The hash of each member of an artifact, all of which fit, and its optimizer.

    That the library is whole, and belongs to the others, loading checks. It is the same each time
    but for one of some hundred compilations on a busy machine, for a reason that is not known: how
    often it was not is counted.
    """
    with odtc.load(path) as artifact:
        return {**artifact.manifest.files, "optimizer": str(artifact.manifest.optimizer)}
