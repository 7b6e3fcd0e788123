"""A run that outlives its device: where that goes away, it goes on from the last checkpoint.

It does so on that device, or on another one if that was asked for, with what that one has.

A step gives the same bits each time, and the samples' order follows from seed and step, so that the
run goes on as if nothing had been.
"""

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from odtc.cli.console import say
from odtc.cli.training.adapter_runs import put_to_work
from odtc.cli.training.checkpoints import Checkpoints
from odtc.cli.training.devices.elsewhere import UnfitError, say_absent, start_there
from odtc.cli.training.running import Running, say_idle_cores
from odtc.core.errors import DeviceError, DeviceLostError, OdtcError

if TYPE_CHECKING:
    from odtc.artifact import Artifact
    from odtc.runtime_rpc.trainer import Trainer

T = TypeVar("T")

# A device that was unplugged, or starts again, has this long to come back.
SECONDS = 120.0
_AGAIN_SECONDS = 1.0
# A device that is lost so often at the same step will be lost there again.
_MOST_AT_A_STEP = 3


class RecoverableTrainer:
    """A trainer on a device, and how to have it again.

    Args:
        artifact: with the step.
        running: where and how it takes steps.
        checkpoints: of the run.
        identity: of the run; see `resuming`.

    Attributes:
        trainer: at work, or as it was when its device was lost.
    """

    def __init__(
        self,
        artifact: "Artifact",
        running: Running,
        checkpoints: Checkpoints,
        identity: dict[str, str],
    ) -> None:
        self._artifact, self._running, self._identity = artifact, running, identity
        self._begun, self._had = running, {running.device}
        self._elsewhere = list(running.elsewhere or ())
        self._checkpoints = checkpoints
        self._before = _identity(checkpoints.checkpoint)
        self._lost_at = self._came_at = -1
        self._times = 0
        self.trainer = running.start(artifact)
        self._begin(goes_on=bool(checkpoints.resume))
        self._say_idle()
        say_absent(self._elsewhere)
        if not self.trainer.session.is_local:
            checkpoints.say_whether_at_the_end()

    def through(self, work: Callable[["Trainer"], T]) -> T:
        """Does the work, again with the trainer of the last checkpoint where the device is lost.

        Raises:
            DeviceLostError: there is no checkpoint to write, or the device does not come back.
            DeviceError: it was stopped, and there is no other one; or it failed otherwise, and is
                the one that the run was begun on, or there is no other one.
        """
        while True:
            try:
                return work(self.trainer)
            except DeviceError as error:
                # What a driver has given up, this process cannot have again.
                is_gone = self.trainer.session.is_local
                if not self._checkpoints.checkpoint or is_gone:
                    raise
                is_lost = isinstance(error, DeviceLostError)
                if stopped := self._stopped():
                    self._leave(stopped, error)
                elif is_lost and not self._is_hopeless():
                    say(f"step {self.trainer.steps}: {error.what}; waiting for the device")
                elif self._elsewhere and (is_lost or self.trainer.steps == self._came_at):
                    self._go_elsewhere(_cannot(error))
                else:
                    raise
                self._come_back(error, self._checkpoints.checkpoint)

    def _say_idle(self) -> None:
        if not (self._running.threads or self._running.cores):
            say_idle_cores(self.trainer)
        self._running.say_idle(self.trainer)

    def _is_hopeless(self) -> bool:
        self._times = self._times + 1 if self.trainer.steps == self._lost_at else 1
        self._lost_at = self.trainer.steps
        return self._times >= _MOST_AT_A_STEP

    def _come_back(self, lost: DeviceError, checkpoint: Path) -> None:
        self.trainer.session.close()
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                self.trainer = start_there(self._running, self._artifact)
                is_written = _identity(checkpoint) != self._before
                self._begin(goes_on=bool(self._checkpoints.resume) or is_written)
                self._had.add(self._running.device)
                self._say_who()
                return
            except (DeviceError, UnfitError) as caught:
                deadline = self._next_try(caught, lost, deadline)

    def _next_try(
        self, caught: DeviceError | UnfitError, lost: DeviceError, deadline: float
    ) -> float:
        """Waits for the device, or goes elsewhere; until when that is waited for."""
        if stopped := self._stopped():
            self._leave(stopped, lost)
            return time.monotonic() + SECONDS
        error = caught.error if isinstance(caught, UnfitError) else caught
        # That of before had all that it takes, and may need a moment to have it again.
        is_over = error is not caught and self._is_elsewhere
        if not is_over and time.monotonic() <= deadline:
            time.sleep(_AGAIN_SECONDS)
            return deadline
        if not self._elsewhere:
            raise error from lost
        self._go_elsewhere(_cannot(error) if is_over else "does not come back")
        return time.monotonic() + SECONDS

    def _stopped(self) -> DeviceError | None:
        """Why the device is none of the run any more: its user has stopped it."""
        from odtc.runtime_rpc.connect import why_not_again

        return why_not_again(self._running.device) if self._running.device in self._had else None

    def _leave(self, stopped: DeviceError, lost: DeviceError) -> None:
        if not self._elsewhere:
            raise stopped from lost
        self._go_elsewhere(_cannot(stopped))

    @property
    def _is_elsewhere(self) -> bool:
        return self._running is not self._begun

    def _go_elsewhere(self, why: str) -> None:
        device = self._elsewhere.pop(0)
        say(f"{self._running.device} {why}; trying {device}")
        self._running, self._times = replace(self._running, device=device), 0

    def _say_who(self) -> None:
        found, steps = "is back", self.trainer.steps
        if self._is_elsewhere:
            found, self._came_at = f"is {self._running.device} now", steps
        say(f"the device {found}; going on from step {steps}")

    def _begin(self, *, goes_on: bool) -> None:
        """Gives the trainer what the run begins with, or goes on from."""
        trainer, path = self.trainer, self._checkpoints.checkpoint
        load = partial(_noted, trainer.load_checkpoint)
        if path and self._checkpoints.adapter:
            put_to_work(trainer, self._checkpoints.adapter, path, load, goes_on=goes_on)
        elif path and goes_on:
            load(path)
        trainer.run = dict(self._identity)
        adapters = self._checkpoints.load_adapters
        if adapters and not self._checkpoints.resume:
            _noted(trainer.load_adapters, adapters)


def _cannot(error: OdtcError) -> str:
    return f"cannot go on ({error.what})"


def _noted(load: Callable[[Path], None], path: Path) -> None:
    """Loads a file, and says what is warned of it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        load(path)
    for warning in caught:
        say(f"note: {warning.message}")


def _identity(path: Path | None) -> tuple[int, int] | None:
    """The identity of a file, which differs once it is written again; None if there is none."""
    if path is None or not path.exists():
        return None
    found = path.stat()
    return found.st_ino, found.st_mtime_ns
