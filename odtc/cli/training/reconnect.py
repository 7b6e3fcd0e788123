"""A run that outlives its device: where that goes away, it goes on from the last checkpoint.

It does so on that device, or on another one if that was asked for.

A step gives the same bits each time, and the samples' order follows from seed and step, so that the
run goes on as if nothing had been.
"""

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from odtc.cli.console import say
from odtc.cli.options import say_of_steps_per_call
from odtc.cli.training.checkpoints import Checkpoints
from odtc.cli.training.running import Running, say_idle_cores
from odtc.core.errors import DeviceError, DeviceLostError

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
        self._elsewhere = list(running.elsewhere or ())
        self._checkpoints = checkpoints
        self._before = _identity(checkpoints.checkpoint)
        self._lost_at = -1
        self._times = 0
        self.trainer = self._start()
        self._say_idle()
        say_of_steps_per_call(running.steps_per_call, is_local=self.trainer.session.is_local)
        if checkpoints.resume and checkpoints.checkpoint:
            _noted(self.trainer.load_checkpoint, checkpoints.checkpoint)

    def through(self, work: Callable[["Trainer"], T]) -> T:
        """Does the work, again with the trainer of the last checkpoint where the device is lost.

        Raises:
            DeviceLostError: there is no checkpoint to write, or the device does not come back.
        """
        while True:
            try:
                return work(self.trainer)
            except DeviceLostError as error:
                # What a driver has given up, this process cannot have again.
                is_gone = self.trainer.session.is_local
                if not self._checkpoints.checkpoint or is_gone or self._is_hopeless():
                    raise
                say(f"step {self.trainer.steps}: {error.what}; waiting for the device")
                self._come_back(error, self._checkpoints.checkpoint)

    def _say_idle(self) -> None:
        if not (self._running.threads or self._running.cores):
            say_idle_cores(self.trainer)

    def _is_hopeless(self) -> bool:
        self._times = self._times + 1 if self.trainer.steps == self._lost_at else 1
        self._lost_at = self.trainer.steps
        return self._times >= _MOST_AT_A_STEP

    def _come_back(self, lost: DeviceLostError, checkpoint: Path) -> None:
        self.trainer.session.close()
        before = self._running
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                self.trainer = self._start()
                if self._checkpoints.resume or _identity(checkpoint) != self._before:
                    _noted(self.trainer.load_checkpoint, checkpoint)
                found = "is back" if self._running is before else f"is {self._running.device} now"
                say(f"the device {found}; going on from step {self.trainer.steps}")
                return
            except DeviceError as error:
                if time.monotonic() > deadline:
                    if not self._elsewhere:
                        raise error from lost
                    self._go_elsewhere()
                    deadline = time.monotonic() + SECONDS
                else:
                    time.sleep(_AGAIN_SECONDS)

    def _go_elsewhere(self) -> None:
        device = self._elsewhere.pop(0)
        say(f"{self._running.device} does not come back; trying {device}")
        self._running = replace(self._running, device=device)

    def _start(self) -> "Trainer":
        trainer = self._running.start(self._artifact)
        trainer.run = dict(self._identity)
        adapters = self._checkpoints.load_adapters
        if adapters and not self._checkpoints.resume:
            _noted(trainer.load_adapters, adapters)
        return trainer


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
